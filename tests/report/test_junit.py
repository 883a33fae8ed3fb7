from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pytest_exportready.report.junit import JUnitError, read_junit, write_junit
from pytest_exportready.report.run import Run, TestResult

WITHOUT_LXML = """
import sys, pickle
sys.modules["lxml"] = None
from pathlib import Path
from pytest_exportready.report.junit import read_junit, write_junit
source, target = map(Path, sys.argv[1:])
run = pickle.loads(source.read_bytes())
write_junit(run, target)
assert read_junit(target) == run
import junitparser.junitparser
assert junitparser.junitparser.etree.__name__ == "xml.etree.ElementTree"
"""


def test_reads_back_what_it_wrote(run: Run, tmp_path: Path) -> None:
    write_junit(run, tmp_path / "deep" / "junit.xml")
    assert read_junit(tmp_path / "deep" / "junit.xml") == run
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["junit.xml"]


def test_hostile_text_reads_back_too(hostile_run: Run, tmp_path: Path) -> None:
    write_junit(hostile_run, tmp_path / "junit.xml")
    assert read_junit(tmp_path / "junit.xml") == hostile_run


def test_the_same_without_lxml(run: Run, hostile_run: Run, tmp_path: Path) -> None:
    import pickle

    for number, each in enumerate((run, hostile_run)):
        (tmp_path / "run").write_bytes(pickle.dumps(each))
        target = tmp_path / f"{number}.xml"
        command = [sys.executable, "-c", WITHOUT_LXML, str(tmp_path / "run"), str(target)]
        subprocess.run(command, check=True)
        assert read_junit(target) == each


def test_what_consumers_read(run: Run, tmp_path: Path) -> None:
    write_junit(run, tmp_path / "junit.xml")
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [element.tag for element in root] == ["testsuite"]
    suite = root[0]
    counts = {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "8", "failures": "1", "errors": "2", "skipped": "2"}
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert len({(case.get("classname"), name) for name, case in cases.items()}) == 8
    assert (cases["test_vit"].get("file"), cases["test_vit"].get("line")) == ("tests/test_export.py", "7")
    verdicts = {name: [child.tag for child in case if child.tag != "properties"] for name, case in cases.items()}
    assert verdicts == {
        "test_mlp": [],
        "test_vit": ["failure"],
        "test_gpt": ["error", "system-out"],
        "test_gan": ["skipped"],
        "test_moe": ["skipped"],
        "test_old": ["error"],
        "test_dlrm": ["flakyFailure"],
        "test_bert": [],
    }
    facts = {prop.get("name"): prop.get("value") for prop in cases["test_vit"].iter("property")}
    stages = "train passed 0.250 s; inspect failed 0.250 s; export skipped 0.250 s; parity skipped 0.250 s"
    assert facts["exportready.stages"] == stages
    assert facts["exportready.finding.1"] == (
        "net.bn1: [ER302 batchnorm_frozen] is in training mode. Fix: model.eval()"
    )


def test_every_budget_and_number_format_holds(hostile_run: Run, tmp_path: Path) -> None:
    write_junit(hostile_run, tmp_path / "junit.xml")
    for element in ElementTree.parse(tmp_path / "junit.xml").iter():
        assert re.fullmatch(r"\d+(\.\d{1,3})?", element.get("time", "0"))
        assert len(element.get("message", "")) <= 500
        assert len(element.get("name", "")) <= 1000
        assert len(element.text or "") <= 64 * 1024
        if element.tag in ("failure", "error", "skipped", "flakyFailure", "rerunFailure"):
            assert element.get("type")


FOREIGN = b"""<testsuite name="s" time="1,234.5"><properties><property name="a" value="b"/></properties>
<testcase classname="c" name="ok" time="0.1"/><testcase name="bad">
<failure message="no">trace</failure></testcase>
<testcase classname="c" name="err" odd="1"><error/>
<system-out>o</system-out><system-err>e</system-err></testcase>
<testsuite name="inner"><testcase name="nested"><skipped/></testcase></testsuite></testsuite>"""


def test_foreign_files_are_read_without_records(tmp_path: Path) -> None:
    (tmp_path / "foreign.xml").write_bytes(FOREIGN)
    run = read_junit(tmp_path / "foreign.xml")
    got = {result.nodeid: (result.outcome, result.message, result.output) for result in run.results}
    assert got == {
        "c::ok": ("passed", "", ""),
        "bad": ("failed", "no", ""),
        "c::err": ("infra", "", "o\ne"),
        "nested": ("skipped", "", ""),
    }
    assert (run.seconds, run.properties) == (1234.5, {"a": "b"})
    assert run.state == "not ready"


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY a{i} "{f"&a{i - 1 if i else str()};" * 10}">' for i in range(12))
    + ']><testsuite name="&a11;"/>'
)
RECORD = (
    '<testsuite><testcase name="t"><properties><property name="exportready.record" value="{}"/></properties>'
    "</testcase></testsuite>"
)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "not well-formed", id="empty"),
        pytest.param(b"<testsuites><testsuite", "not well-formed", id="cut off"),
        pytest.param(b"\x00\xff\xfe", "not well-formed", id="binary"),
        pytest.param(b"<html/>", "not a JUnit report", id="other"),
        pytest.param(b'<testsuite><testcase name="t" time="soon"/></testsuite>', "'t'", id="bad time"),
        pytest.param(BOMB.encode(), "document type", id="entity bomb"),
        pytest.param(BOMB.encode("utf-16"), "document type", id="entity bomb in UTF-16"),
        pytest.param(
            b'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><testsuite name="&e;"/>',
            "document type",
            id="external entity",
        ),
        pytest.param(b"<testsuite>" * 50_000 + b"</testsuite>" * 50_000, "nested too deeply", id="deep"),
        *(
            pytest.param(RECORD.format(text.replace('"', "&quot;")).encode(), "test case 't'", id=f"record {text[:30]}")
            for text in (
                "{",
                "[]",
                "[" * 100_000,
                '{"case":"a"}',
                '{"case":5,"scenario":"","stages":[],"findings":[]}',
                '{"case":"a","scenario":"b","stages":[{"name":"x","outcome":"great"}],"findings":[]}',
                '{"case":"a","scenario":"b","stages":[{"name":"x","outcome":"passed","facts":[]}],"findings":[]}',
                '{"case":"a","scenario":"b","stages":"no","findings":[]}',
                '{"case":"a","scenario":"b","stages":[],"findings":[{"code":"ER1"}]}',
                '{"case":"a","scenario":"b","stages":[],"findings":[],"checked":[["one"]]}',
            )
        ),
    ],
)
def test_a_file_that_cannot_be_trusted_is_named(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.xml"
    path.write_bytes(content)
    with pytest.raises(JUnitError, match=r"broken\.xml(: .*| is .*)" + re.escape(message)):
        read_junit(path)


def test_a_missing_file_and_no_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(JUnitError, match=r"none\.xml cannot be read: No such file"):
        read_junit(tmp_path / "none.xml")
    with pytest.raises(JUnitError, match="no JUnit file is given"):
        read_junit()


def test_one_broken_file_of_several_is_reported_and_the_others_kept(run: Run, tmp_path: Path) -> None:
    green = Run(run.results[:1], run.properties)
    write_junit(green, tmp_path / "good.xml")
    (tmp_path / "broken.xml").write_text("<testsuites>")
    both = read_junit(tmp_path / "good.xml", tmp_path / "broken.xml")
    assert both.results[0] == green.results[0]
    assert both.results[1].outcome == "infra"
    assert "broken.xml is not well-formed" in both.results[1].message
    assert both.verdict == "Inconclusive: 1 of 2 cases have no verdict (broken.xml)"
    write_junit(both, tmp_path / "merged.xml")
    assert read_junit(tmp_path / "merged.xml") == both


def test_a_record_of_a_later_version_is_read(run: Run, tmp_path: Path) -> None:
    write_junit(Run(run.results[:1]), tmp_path / "junit.xml")
    text = (tmp_path / "junit.xml").read_text()
    (tmp_path / "junit.xml").write_text(text.replace("{'case", "{'later':1,'case"))
    assert read_junit(tmp_path / "junit.xml").results == run.results[:1]


def test_numbers_out_of_range_are_harmless(run: Run, tmp_path: Path) -> None:
    odd = replace(run.results[0], seconds=float("inf"), line=0)
    write_junit(Run((odd,)), tmp_path / "junit.xml")
    text = (tmp_path / "junit.xml").read_text().replace("'seconds':1.0", f"'seconds':1{'0' * 400}")
    (tmp_path / "junit.xml").write_text(text.replace('time="1000000000.0"', 'time="-5" line="-3"', 1))
    result = read_junit(tmp_path / "junit.xml").results[0]
    assert result.readiness is not None
    assert result.readiness.seconds == 1e9


def test_an_older_file_survives_a_failed_write(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "junit.xml"
    write_junit(run, path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_junit(Run(()), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_cannot_be_made_is_an_os_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_junit(run, tmp_path / "file" / "junit.xml")


def test_two_thousand_results_are_written_in_linear_time(run: Run, tmp_path: Path) -> None:
    many = tuple(replace(run.results[0], nodeid=f"a::{i}", name=f"t{i}") for i in range(2_000))
    write_junit(Run(many), tmp_path / "junit.xml")
    assert len(read_junit(tmp_path / "junit.xml").results) == 2_000


def test_an_empty_run_reads_back(tmp_path: Path) -> None:
    write_junit(Run(()), tmp_path / "junit.xml")
    assert read_junit(tmp_path / "junit.xml") == Run(())


def test_names_are_never_empty(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text("<testsuites><testsuite><testcase/></testsuite></testsuites>")
    assert read_junit(tmp_path / "a.xml").results == (TestResult("(unnamed)", "", "(unnamed)"),)


def test_a_patch_and_what_torch_says_read_back_and_older_files_have_neither(run: Run, tmp_path: Path) -> None:
    patch = '--- n.py\n+++ n.py\n@@ -1 +1 @@\n-    y = "a" if c else \'b\'\n+    y = where(c, "a")'
    first = next(result for result in run.results if result.readiness and result.readiness.errors)
    assert first.readiness is not None
    finding = replace(first.readiness.errors[0], patch=patch, torch_says="UserError: u0 > 0")
    record = replace(first.readiness, findings=(finding,))
    write_junit(Run((replace(first, readiness=record),)), tmp_path / "new.xml")
    (read,) = read_junit(tmp_path / "new.xml").results
    assert read.readiness == record
    write_junit(
        Run((replace(first, readiness=replace(record, findings=first.readiness.errors)),)), tmp_path / "old.xml"
    )
    text = (tmp_path / "old.xml").read_text(encoding="utf-8")
    assert "torch_says" not in text
    assert "patch" not in text
    (old,) = read_junit(tmp_path / "old.xml").results
    assert old.readiness is not None
    assert [(one.patch, one.torch_says) for one in old.readiness.findings] == [("", "")]


def test_a_note_of_an_earlier_version_is_read(run: Run, tmp_path: Path) -> None:
    """It was called info there."""
    first = next(result for result in run.results if result.readiness and result.readiness.findings)
    assert first.readiness is not None
    note = replace(first.readiness.findings[0], severity="note")
    record = replace(first.readiness, findings=(note,))
    write_junit(Run((replace(first, readiness=record),)), tmp_path / "junit.xml")
    text = (tmp_path / "junit.xml").read_text(encoding="utf-8")
    assert "'severity':'note'" in text
    (tmp_path / "junit.xml").write_text(text.replace("'severity':'note'", "'severity':'info'"), encoding="utf-8")
    (read,) = read_junit(tmp_path / "junit.xml").results
    assert read.readiness == record
