"""A method's file that cannot be imported is named with its line."""

import subprocess
import sys

import pytest

from noisyfl import methods
from noisyfl.core.options import BadInput


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("import math\n\nclass Broken(:\n    pass\n", 3, "SyntaxError: invalid syntax"),
        ("import math\nx = nothing\n", 2, "NameError: name 'nothing' is not defined"),
        (
            "from noisyfl.method import METHODS\n"
            "from noisyfl.simulation.server_side import ServerSide\n\n\n"
            "@METHODS.register('fedavg')\nclass Again(ServerSide):\n    '''Twice.'''\n",
            5,
            "two methods are called 'fedavg': that of noisyfl.methods.fedavg and that of "
            "noisyfl.methods.broken_method",
        ),
    ],
)
def test_the_file_and_the_line_are_named(tmp_path, monkeypatch, text, line, why):
    (tmp_path / "broken_method.py").write_text(text)
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    monkeypatch.setattr(methods, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(BadInput) as refused:
        methods._import("broken_method")
    assert str(refused.value) == f"{tmp_path}/broken_method.py, line {line}: {why}"


@pytest.mark.slow
def test_what_methods_need_may_be_imported_before_them():
    subprocess.run([sys.executable, "-c", "import noisyfl.method as fl; fl.METHODS"], check=True)
