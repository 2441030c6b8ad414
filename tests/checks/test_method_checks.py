"""The checks of a method find what they are for, each planted alone."""

import inspect
import re
from typing import ClassVar

import numpy as np
import pytest
import torch
from pydantic import PrivateAttr

from noisyfl.checks import method as checks
from noisyfl.checks.small_run import spec_of, train_small
from noisyfl.core import plugins
from noisyfl.core.artifacts import read_json, read_table
from noisyfl.core.options import BadInput, option
from noisyfl.core.places import ROOT
from noisyfl.methods import METHODS
from noisyfl.simulation.client_side import ClientSide
from noisyfl.specs.extent import extent_of
from outside import PARTS, Sound

pytestmark = pytest.mark.usefixtures("forgotten")


class WithoutReference(ClientSide):
    """Nobody knows where it comes from."""


class Undescribed(Sound):
    """Its option says nothing."""

    strength: float = 1.0


class Misspelled(Sound):
    """A hook that nothing calls."""

    def after_update(self, round, updates, federation):
        pass


class OtherArguments(Sound):
    """A hook that cannot be called."""

    def epoch(self, client):
        return super().epoch(client, None)


class Undocumented(Sound):
    strength: float = option(1.0, doc="of nothing", at_least=0)


class OnTheWrongSide(ClientSide):
    """Aggregates, which clients do not."""

    reference: ClassVar[str] = "nobody, 2026"

    def aggregate(self, updates, federation):
        return updates[0].weights


class OfNoMeasure(Sound):
    """Its default scales with nothing."""

    pause: int = option(100, doc="of nothing", share_of=("round", 500))


class WrongVariant(Sound):
    """A variant that is none."""

    strength: float = option(1.0, doc="of nothing", at_least=0)
    variants: ClassVar = {"weak": {"strength": -1.0}}


class KeepingNumpy(Sound):
    """Keeps what no checkpoint can be read with."""

    def after_updates(self, round, updates, federation):
        federation.state["mean"] = np.float64(1.0)


class AskingTooEarly(Sound):
    """Reads while it is planned what a round leaves behind."""

    def counted_updates(self, round, federation):
        return len(federation.state["seen"])


class Exploding(Sound):
    """Ends with numbers that are none."""

    def aggregate(self, updates, federation):
        return {name: value * torch.nan for name, value in federation.weights.items()}


class Climbing(Sound):
    """Maximises its loss."""

    def losses(self, logits, target):
        return -super().losses(logits, target).clamp(max=4)


class Idle(Sound):
    """Descends on nothing."""

    def losses(self, logits, target):
        return 0 * super().losses(logits, target)


class Hasty(Idle):
    """Has a stage of which a few rounds leave nothing."""

    pause: int = option(10, doc="first round that trains", share_of=("rounds", 300))


class Forgetting(Sound):
    """Keeps between rounds what no checkpoint has."""

    _rounds: list[int] = PrivateAttr(default_factory=list)

    def after_round(self, round, updates, federation):
        self._rounds.append(round)
        for update in updates:
            federation.report(update.client, mean_loss=float(len(self._rounds)))


class Crowded(Sound):
    """Trains all clients in rounds that count as ordinary ones."""

    def select(self, round, federation):
        return np.arange(len(federation.clients))


class Unseeded(Sound):
    """Draws what no seed sets."""

    def select(self, round, federation):
        return np.random.default_rng().choice(len(federation.clients), 2, replace=False)


class Peeking(Sound):
    """Leaves out what has a wrong label, which it cannot know."""

    def positions(self, client):
        return np.flatnonzero((client.labels == client.true).numpy())


class OnTheHost(Sound):
    """Reads a tensor in its loss."""

    def losses(self, logits, target):
        return super().losses(logits, target) * (1 + logits.detach().mean().item())


@pytest.mark.parametrize(
    ("check", "method", "expected"),
    [
        (checks.declares, WithoutReference, "planted: it has no reference"),
        (checks.declares, Undescribed, "strength is not declared by"),
        (checks.declares, Misspelled, "no hook 'after_update'; did you mean 'after_updates'?"),
        (checks.declares, OtherArguments, "epoch takes self, client, expected self, client, turn"),
        (checks.declares, Undocumented, "planted: its class has no docstring"),
        (checks.declares, OnTheWrongSide, "aggregate is a hook of a ServerSide, which OnTheW"),
        (checks.declares, OfNoMeasure, "pause: share_of: unknown measure 'round'; did you mean"),
        (checks.declares, WrongVariant, "strength: Input should be greater than or equal to 0"),
        (checks.trains, Exploding, "the run is diverged"),
        pytest.param(
            *(checks.trains, Climbing, r"rounds \(FedAvg: 0\.9\d\d\): it has learned nothing"),
            marks=pytest.mark.slow,
        ),
        pytest.param(checks.trains, Idle, "it has learned nothing", marks=pytest.mark.slow),
        pytest.param(
            checks.trains, Hasty, r"Or is a stage too short: pause 1\?", marks=pytest.mark.slow
        ),
        pytest.param(
            *(
                checks.resumes,
                KeepingNumpy,
                r"federation.state: got float64 at \['mean'\] in round",
            ),
        ),
        pytest.param(
            *(
                checks.trains,
                Crowded,
                "rounds have 48 local updates, and its counted_updates says 24",
            ),
            marks=pytest.mark.slow,
        ),
        (checks.hides_the_truth, Unseeded, "two runs that begin alike end with other models"),
        (checks.hides_the_truth, Exploding, "or with one that is not finite"),
        (checks.hides_the_truth, Peeking, "its model differs if the true labels do"),
        (checks.resumes, Forgetting, "clients differs in mean_loss: keep in `client.state` or"),
        (checks.agrees, OnTheHost, "(?s)synchronizing.*test_method_checks"),
    ],
)
def test_what_is_wrong_is_found(check, method, expected, data, tmp_path):
    def registered_and_checked():
        METHODS.register("planted")(method)
        check({"name": "planted"}, data, tmp_path)

    with pytest.raises((checks.Failed, BadInput, RuntimeError), match=expected):
        registered_and_checked()


def test_a_hook_that_fails_while_it_is_planned_is_named(data):
    METHODS.register("planted")(AskingTooEarly)
    line = inspect.getsourcelines(AskingTooEarly.counted_updates)[1] + 1
    expected = f"method planted, before it has data: {__file__}, line {line}: KeyError: 'seen'"
    with pytest.raises(BadInput, match=re.escape(expected)):
        extent_of(spec_of("planted"))


@pytest.mark.slow
def test_a_sound_method_of_a_plugin_passes_all(tmp_path):
    (tmp_path / "mine.py").write_text(PARTS)
    plugins.load([str(tmp_path / "mine.py")])
    said = []
    assert checks.check_all("halves(factor=0.25)", said.append)
    assert [line[:8] for line in said] == ["ok      "] * len(checks.CHECKS)
    assert said[0] == "ok      what it declares: 1 option; hooks: losses"
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.slow
def test_all_that_is_wrong_is_said_one_line_each():
    METHODS.register("planted")(OnTheHost)
    said = []
    assert not checks.check_all("planted", said.append)
    assert [line.split()[0] for line in said] == ["ok", "ok", "ok", "ok", "FAILED"]
    assert not any("\n" in line for line in said)


class Failing(Sound):
    """Looks for what is not there."""

    def losses(self, logits, target):
        return super().losses(logits, target) * {}["weight"]


def test_an_error_of_the_method_is_told_once_with_its_line():
    METHODS.register("planted")(Failing)
    said = []
    assert not checks.check_all("planted", said.append)
    line = inspect.getsourcelines(Failing.losses)[1] + 1
    where = f"{__file__}, line {line}: KeyError: 'weight'"
    assert said[1] == f"FAILED  a run of a few rounds: {where}"
    assert all(line.startswith("skipped ") for line in said[2:])


def test_the_example_of_the_page_is_a_plugin_that_trains(tmp_path, data):
    page = (ROOT / "docs" / "plugins.md").read_text()
    (example,) = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "my_parts.py").write_text(example)
    plugins.load([str(tmp_path / "my_parts.py")])
    method = {"name": "confident", "power": 1}
    checks.declares(method, data, tmp_path)
    files = train_small(spec_of(method, model="one_layer(width=32)"), data, tmp_path)
    rounds = read_table(files.rounds)[0].to_pylist()
    assert rounds[-1]["test_accuracy"] > rounds[0]["test_accuracy"]
    assert list(read_json(files.provenance)["plugins"]) == ["my_parts.py"]
    groups = re.findall(r"^\| `(noisyfl\.\w+)`", page, flags=re.MULTILINE)
    assert groups == list(plugins.GROUPS)
    titles = re.findall(r"^\| ((?:what|a run|the loop) [^|]*) \|", page, flags=re.MULTILINE)
    assert len(titles) == len(checks.CHECKS)
    assert all(full.startswith(title) for title, full in zip(titles, checks.CHECKS, strict=True))
