"""Reference models: one a file, declared exactly as a user declares a case.

They are the plugin's first user: ``pytest --export-ready`` without paths collects the files of this folder,
trains and exports every model, and all of them must come out ready.

To add a reference model, write one new file here, ``<model>.py``; nothing else needs to change:

- a frozen config dataclass, then the modules, with a comment where a shape changes: ``B`` batch, ``T`` time
  or tokens, ``C`` channels, ``H`` height or heads, ``W`` width; about 100 lines;
- import only torch and the public API of ``pytest_exportready``, never another reference model;
- last the case, a function ``test_<model>`` marked ``@export_ready(...)``: seeded, the model in eval mode, trained
  under every scenario that fits, every dimension dynamic that is so in production, with example sizes of 2 or more;
- small enough for a CPU: under 2 M parameters, about a second to export and run; big enough to be real;
- valid for any inputs of the same kind: integers drawn from the example's own values, floats within its
  range, masks of any pattern (a softmax over nothing is NaN).

``tests/reference_models`` finds the new file by itself.
"""
