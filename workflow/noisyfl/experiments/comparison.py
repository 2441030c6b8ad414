"""What is compared: methods in settings, whose runs are ordinary ones.

A scale and an experiment that :func:`noisyfl.experiments.comparison_files.write_scale` writes
expand to the same specs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from noisyfl.core.options import BadInput
from noisyfl.core.registry import parts_of, split_component
from noisyfl.data.datasets.dataset import DATASETS, dataset
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.datasets.validation import ENDING
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.remarks import remarks_on
from noisyfl.experiments.config import Overlay
from noisyfl.experiments.run_specs import RunSpecs
from noisyfl.experiments.setting import merge
from noisyfl.experiments.sweeps import ComparedRow, equations, in_words, is_numeric
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import edited_methods
from noisyfl.specs.extent import remarks_of, work_of
from noisyfl.specs.identity import identity


@dataclass(frozen=True)
class ComparedSetting:
    """A setting of the comparison, and its runs.

    Attributes:
        name: what tells it from the others; if there are none, the data and the noise.
        setting: as an experiment's file has it.
        swept: the values of the options that have several, by key or ``<component>.<option>``.
        specs: of each row, by its name, the canonical specs of its runs, one a seed.
    """

    name: str
    setting: dict[str, Any]
    swept: dict[str, Any]
    specs: dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class MethodComparison:
    """Methods in one or several settings.

    Attributes:
        own: reads a user's own files.
    """

    rows: list[ComparedRow]
    settings: list[ComparedSetting]
    own: OwnFiles

    @property
    def runs(self) -> dict[str, dict[str, Any]]:
        """The spec of every run, by id."""
        return {
            identity(spec): spec
            for one in self.settings
            for specs in one.specs.values()
            for spec in specs
        }

    @property
    def names(self) -> dict[str, str]:
        """What to call every run, by id: its row, what its setting differs in, and its seed."""
        return {
            identity(spec): ", ".join([row, *equations(one.swept), f"seed {spec['seed']}"])
            for one in self.settings
            for row, specs in one.specs.items()
            for spec in specs
        }

    @property
    def seeds(self) -> int:
        """How many seeds each row has."""
        return len(next(iter(self.settings[0].specs.values())))

    @property
    def axis(self) -> str:
        """The only option of which the settings have several values, if these are numbers."""
        keys = {key for one in self.settings for key in one.swept}
        numbers = all(is_numeric(value) for one in self.settings for value in one.swept.values())
        return keys.pop() if len(keys) == 1 and numbers else ""

    def remarks(self) -> list[str]:
        """What a user should know of the runs and their data, each once."""
        found = [remark for spec in self.runs.values() for remark in remarks_of(spec)]
        for spec in self.runs.values():
            partition = spec["noisy_partition"]
            found += [*self.own.remarks_on(partition), *remarks_on(partition)]
            schedule, clients = Schedule(**spec["schedule"]), count_clients(spec)
            if schedule.participants(clients) == 1 < clients:
                found.append(
                    f"1 of {clients} clients takes part in a round (participation "
                    f"{schedule.participation:g}), so that the server has nothing to aggregate"
                )
        used = {part["name"] for spec in self.runs.values() for part in parts_of(spec["method"])}
        return list(dict.fromkeys([*found, *self.own.doubts, *edited_methods(used)]))

    def describe(self) -> str:
        """The settings in one line, with every default."""
        given: dict[str, dict[str, None]] = {}
        for one, row in itertools.product(self.settings, self.rows):
            options = {**one.setting, **one.setting["schedule"], **row.schedule}
            options.pop("schedule")
            for key, value in options.items():
                given.setdefault(key, {})[in_words(value)] = None
        words = [f"{key} {' or '.join(values)}" for key, values in given.items()]
        return ", ".join([*words, f"seeds {self.seeds}"])

    def on_validation(self) -> MethodComparison:
        """The rows that are values of an option, on the validation parts of the datasets.

        Raises:
            BadInput: there is no such row, or a dataset has no validation part.
        """
        rows = [row for row in self.rows if row.sweep]
        if not rows:
            raise BadInput("no method has several values of an option to choose from")
        settings = [
            (one.swept, {**one.setting, "dataset": _validation_part(one.setting["dataset"])})
            for one in self.settings
        ]
        return comparison_of(settings, rows, self.seeds, self.own)

    def choose(self, worth: Mapping[str, float]) -> MethodComparison:
        """The comparison with one value for each option that has several.

        Args:
            worth: by row, what its value is worth; the largest is chosen, of equal ones the first.
        """
        best: dict[str, str] = {}
        for row in self.rows:
            if row.sweep and (row.sweep not in best or worth[row.name] > worth[best[row.sweep]]):
                best[row.sweep] = row.name
        counts = {sweep: sum(row.sweep == sweep for row in self.rows) for sweep in best}
        rows = [
            replace(row, note=f"chosen from {counts[row.sweep]}") if row.sweep else row
            for row in self.rows
            if not row.sweep or best[row.sweep] == row.name
        ]
        settings = [
            replace(one, specs={row.name: one.specs[row.name] for row in rows})
            for one in self.settings
        ]
        return replace(self, rows=rows, settings=settings)


def specs_of(
    setting: Mapping[str, Any], rows: Sequence[ComparedRow], seeds: int, own: OwnFiles
) -> dict[str, list[dict[str, Any]]]:
    """The specs of each row in a setting, by its name."""
    specs = RunSpecs(Overlay.read({}), own, "", "compare", {})
    numbers = range(1, seeds + 1)
    return {
        row.name: specs.of(
            "compare/methods",
            merge(setting, {"schedule": row.schedule}),
            row.method,
            numbers,
            row.name,
        )
        for row in rows
    }


def comparison_of(
    settings: Sequence[tuple[dict[str, Any], dict[str, Any]]],
    rows: Sequence[ComparedRow],
    seeds: int,
    own: OwnFiles,
) -> MethodComparison:
    """The comparison, of settings with what tells them apart."""
    names: dict[str, str] = {}
    compared = []
    for swept, setting in settings:
        specs = specs_of(setting, rows, seeds, own)
        where = ", ".join(equations(swept))
        for row, (first, *_) in specs.items():
            work_of(first)  # which checks the model's module, as planning does
            name = ", ".join(filter(None, (row, where)))
            if (other := names.setdefault(identity(first), name)) is not name:
                raise BadInput(f"{other} and {name} are the same run", "method")
        compared.append(ComparedSetting(where or _column(setting, specs), setting, swept, specs))
    return MethodComparison(list(rows), compared, own)


def _column(setting: Mapping[str, Any], specs: Mapping[str, list[dict[str, Any]]]) -> str:
    """The data and the noise in a few words."""
    first = next(iter(specs.values()))[0]
    given = [setting[key] for key in ("partition", "label_noise", "noise_level")]
    words = [in_words(one) for one in given if one != "none"]
    return ", ".join([dataset(first["noisy_partition"]["dataset"]).title, *words])


def count_clients(spec: Mapping[str, Any]) -> int:
    """How many clients a run has."""
    count: int = spec["noisy_partition"]["partition"]["clients"]
    return count


def _validation_part(raw: Any) -> str | dict[str, Any]:
    """The validation part of a dataset; :class:`BadInput` if it has none."""
    name, options = split_component(raw, "dataset")
    if name in KINDS:
        if options.get("validation"):
            raise BadInput(f"{in_words(raw)} is a validation part already")
        return {"name": name, **options, "validation": True}
    if (part := f"{name}{ENDING}") not in DATASETS:
        own = ", ".join(f"{kind}(...)" for kind in KINDS)
        known = ", ".join(one.removesuffix(ENDING) for one in DATASETS if one.endswith(ENDING))
        raise BadInput(f"{name} has no validation part (known: {known}, {own})")
    return part
