"""One wheel for all legs, chosen by pip itself from an index that is a folder here."""

from __future__ import annotations

import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from pytest_exportready.report.github.resolve_torch import WheelError, resolve


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index") / "simple" / "neverreal"
    folder.mkdir(parents=True)
    links = []
    for version in ("1.0", "1.1.dev20261128", "1.1.dev20261129"):
        wheel = folder / f"neverreal-{version}-py3-none-any.whl"
        about = f"neverreal-{version}.dist-info"
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: neverreal\nVersion: {version}\n")
            archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{about}/RECORD", "")
        links.append(f'<a href="{wheel.name}#sha256={sha256(wheel.read_bytes()).hexdigest()}">{wheel.name}</a>')
    (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>")
    return folder.parent


@pytest.mark.parametrize(("pre", "version"), [(False, "1.0"), (True, "1.1.dev20261129")])
def test_the_newest_that_counts(index: Path, pre: bool, version: str) -> None:
    assert resolve("neverreal", index.as_uri(), pre=pre) == version


def test_an_exact_version(index: Path) -> None:
    assert resolve("neverreal==1.1.dev20261128", index.as_uri()) == "1.1.dev20261128"


@pytest.mark.parametrize("requirement", ["neverreal==9", "--help", "not a requirement"])
def test_what_cannot_be_had_is_reported_with_pips_words(index: Path, requirement: str) -> None:
    with pytest.raises(WheelError) as error:
        resolve(requirement, index.as_uri())
    assert str(error.value).startswith(f"{requirement} from file://")
    assert len(str(error.value)) > len(f"{requirement} from {index.as_uri()}: ")
