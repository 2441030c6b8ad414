"""A run's spec: everything that decides its result, as one plain mapping, and the id made of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, field_validator

from noisyfl.core.options import BadInput, check_keys, find, within
from noisyfl.core.plugins import facts_of, module_of
from noisyfl.core.registry import Registry, parts_of, split_component
from noisyfl.core.typed import each_once
from noisyfl.data.augmentation import augment
from noisyfl.data.datasets.dataset import dataset
from noisyfl.data.datasets.own_kinds import KINDS
from noisyfl.data.noise.label_noise import LABEL_NOISES
from noisyfl.data.noise.noise_level import NOISE_LEVELS
from noisyfl.data.noisy_partition import PartitionSpec, component_modules
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.partitioning.partition import PARTITIONS
from noisyfl.models import MODELS, Model, fewest_images
from noisyfl.simulation.schedule import Schedule
from noisyfl.specs.catalogue import canonical_method, methods, without_revisions
from noisyfl.specs.identity import canonical_json

SIMULATION_REVISION = 2
"""Increased when the simulation's own arithmetic changes, which makes every run stale."""

Probe = Literal["features", "local_models", "samples"]
"""What may be measured after a run's last round (:mod:`noisyfl.simulation.probes`)."""

REGISTRIES: dict[str, Registry[Any]] = {
    "partition": PARTITIONS,
    "label_noise": LABEL_NOISES,
    "noise_level": NOISE_LEVELS,
    "model": MODELS,
}
"""By key of a run's setting, the components that it may name."""


class RunSpec(PartitionSpec):
    """What a user gives for a run; all but the method and the seed make up the run's setting.

    Attributes:
        method: canonical.
    """

    model: Annotated[Model, PlainValidator(MODELS.build)]
    augmentation: str
    normalization: str
    schedule: Schedule
    method: dict[str, Any]
    probes: Annotated[list[Probe], AfterValidator(each_once)] = Field([])

    @field_validator("augmentation", "normalization")
    @classmethod
    def _is_known(cls, name: str, info: ValidationInfo) -> str:
        check_part(str(info.field_name), name)
        return name

    @field_validator("method", mode="before")
    @classmethod
    def _canonical(cls, raw: Any, info: ValidationInfo) -> dict[str, Any]:
        schedule, partition = info.data.get("schedule"), info.data.get("partition")
        if schedule is None or partition is None:
            return {}
        return canonical_method(raw, "", measures_of(schedule, partition.clients))

    def verify(self, context: Mapping[str, Any]) -> None:
        """Raise :class:`BadInput` if parts of the run do not fit together."""
        super().verify(context)
        facts, clients = self.dataset, self.partition.clients
        with within("model"):
            self.model.check(facts.shape)
        shape, classes = facts.shape, len(facts.classes)
        if self.schedule.batch_size == 1 and fewest_images(self.model, shape, classes) > 1:
            height, width, _ = shape
            raise BadInput(
                f"got 1, and {self.model.name} cannot be trained on one image of {height}x{width}, "
                "since its batch normalisation has one value per channel; expected 2 or more",
                "schedule",
                "batch_size",
            )
        if augment.AUGMENTATIONS[self.augmentation].client_light and facts.encoded:
            raise BadInput(
                f"got {self.augmentation!r}, which needs all pixels in memory, and {facts.name} is "
                "kept encoded",
                "augmentation",
            )
        if facts.vectors and self.augmentation != "none":
            raise BadInput(
                f"got {self.augmentation!r}, which is for images, and {facts.title} has vectors; "
                "expected none",
                "augmentation",
            )
        augment.channel_statistics(self.normalization, facts)
        with within("method"):
            for part in parts_of(self.method):
                declared = methods()[part["name"]]
                if declared.needs_truth and not facts.true_labels:
                    raise BadInput(
                        f"got {part['name']!r}, which has to know the true labels, and those of "
                        f"{facts.name} are not known"
                    )
                if declared.needs_sgd and self.schedule.optimizer != "sgd":
                    raise BadInput(
                        f"got {part['name']!r}, which needs the optimizer sgd, and that of the "
                        f"schedule is {self.schedule.optimizer}"
                    )
            if not facts.true_labels:
                check_level_is_given(self.method, f"is not known of {facts.name}")
            for part in parts_of(self.method):
                _check_participants(part, self.schedule.participants(clients))

    def canonical(self) -> dict[str, Any]:
        """Everything that decides the run's result, as JSON has it."""
        # Their order makes no other run.
        probes = {"probes": sorted(self.probes)} if self.probes else {}
        return {
            "noisy_partition": self.noisy_partition(),
            "seed": self.seed,
            "model": self.model.canonical(),
            "augmentation": self.augmentation,
            "normalization": self.normalization,
            "schedule": self.schedule.options(),
            "method": self.method,
            "simulation_revision": SIMULATION_REVISION,
            **probes,
        }


def canonical_run(
    raw: Mapping[str, Any], where: str, own: OwnFiles | None = None
) -> dict[str, Any]:
    """Check a run and fill in every default; :class:`BadInput` names ``where`` and the key."""
    return RunSpec.read(raw, where, own=own).canonical()


def check_part(kind: str, raw: Any) -> None:
    """Raise :class:`BadInput` if one part of a run is wrong: a component, an option, or a name.

    Options may be missing. A component without a name changes single options of another component.

    Args:
        kind: a key of a run's setting; or ``methods``, which are options by method, where those of
            a combination, such as ``centralized+dividemix``, are of its second method.
    """
    if kind == "schedule":
        Schedule.check_options(raw)
    elif kind == "augmentation":
        find(augment.AUGMENTATIONS, raw, kind)
    elif kind == "normalization":
        find(augment.NORMALIZATIONS, raw, kind)
    elif kind == "dataset":
        name, options = split_component(raw, kind)
        if name not in KINDS:
            dataset(name)
        else:
            with within(name):
                KINDS[name].check_options(options)
    elif kind == "methods":
        for key, options in raw.items():
            found = [find(methods(), name, "method") for name in key.split("+")]
            if len(found) > 2:
                raise BadInput(f"got {key!r}, expected one method or two")
            with within(key):
                found[-1].check_options(options)
    else:
        _check_component(REGISTRIES[kind], raw)


def _check_component(registry: Registry[Any], raw: Any) -> None:
    if isinstance(raw, Mapping) and "name" not in raw:
        known = {name for one in registry.classes.values() for name in one.model_fields}
        check_keys(raw, sorted(known), "", "option")
        return
    name, options = split_component(raw, registry.kind)
    component = registry.get(name)
    with within(name):
        component.check_options(options)


def check_level_is_given(method: Mapping[str, Any], why: str) -> None:
    """:class:`BadInput` if an option of a method stands for the true noise level.

    Args:
        method: canonical.
        why: that level cannot be used: the end of a sentence.
    """
    for part in parts_of(method):
        for option, value in methods()[part["name"]].needs_level.items():
            if part[option] == value:
                other = (
                    "another value" if value else f"a number, as in {part['name']}({option}=0.2)"
                )
                raise BadInput(
                    f"got {value or 'null'}, which stands for the true noise level, and that "
                    f"{why}; expected {other}, or a method that does not need it, such as fedrn",
                    part["name"],
                    option,
                )


def _check_participants(method: Mapping[str, Any], there: int) -> None:
    """Raise :class:`BadInput` if a round has fewer participants than a method or option needs."""
    declared = methods()[method["name"]]
    takes = {"": declared.least_participants}
    for option, (each, more) in declared.extras("participants").items():
        if method[option] is not None:
            takes[option] = each * method[option] + more
    option, most = max(takes.items(), key=lambda each: each[1])
    if there < most:
        words = f"needs {most} participants per round; there are {there}"
        words = f"got {method[option]}, which {words}" if option else words
        raise BadInput(words, method["name"], *([option] if option else []))


def measures_of(
    schedule: Schedule | Mapping[str, Any], clients: int | None = None
) -> dict[str, float]:
    """The measures of a run that the defaults of methods' options may scale with.

    These are ``rounds``; ``visits``, the number of rounds that each client takes part in on
    average; ``local_epochs``; and if it is given, the number of ``clients``.
    """
    if isinstance(schedule, Mapping):
        schedule = Schedule(**schedule)
    return {
        "rounds": schedule.rounds,
        "visits": schedule.rounds * schedule.participation,
        "local_epochs": schedule.local_epochs,
        **({} if clients is None else {"clients": clients}),
    }


def plugins_of(spec: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The plugins that the components of a canonical run come from, by name, as provenance has
    them: their ``version``, where they are packages, and the ``sha256`` of their sources.
    """
    classes = [
        MODELS.get(spec["model"]["name"]),
        *(find(methods(), p["name"], "method") for p in parts_of(spec["method"])),
    ]
    return facts_of([*component_modules(spec["noisy_partition"]), *map(module_of, classes)])


def check_run(spec: Any, where: str) -> None:
    """Raise :class:`BadInput` unless ``spec`` is exactly what :func:`canonical_run` would return.

    A spec of another revision raises an error: the present code cannot make its run.
    """
    try:
        text = canonical_json(spec)
        partition = spec["noisy_partition"]
        keys = [key for key in RunSpec.model_fields if key != "probes" or key in spec]
        given = {key: partition[key] if key in partition else spec[key] for key in keys}
        given["seed"] = spec["seed"]
        given["method"] = without_revisions(spec["method"])
        canonical = canonical_run(given, where)
    except BadInput:
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise BadInput(f"{where}: not a run's spec ({error!r})") from error
    # Compared as texts, from which the id is made: as values, 4.0 would equal 4.
    if canonical_json(canonical) != text:
        surplus = [key for key in spec if key not in canonical]
        if surplus:
            raise BadInput(
                f"{where}: not a canonical spec of this version, which would not have "
                f"{', '.join(surplus)}"
            )
        differing = [
            key
            for key in canonical
            if canonical_json({key: canonical[key]}) != canonical_json({key: spec.get(key)})
        ]
        pairs = zip(parts_of(spec["method"]), parts_of(canonical["method"]), strict=False)
        edited = [new["name"] for old, new in pairs if old.get("revision") != new["revision"]]
        if edited:
            raise BadInput(
                f"{where}: the code of {' and '.join(edited)} has changed since this spec was "
                "made; compare and specs make one of the present code, whose run is trained again"
            )
        raise BadInput(
            f"{where}: not a canonical spec of this version; {', '.join(differing)} would now be "
            f"{', '.join(canonical_json(canonical[key]) for key in differing)}"
        )
