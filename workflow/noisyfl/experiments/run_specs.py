"""The specs of runs in a paper's settings, some of whose values a scale overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noisyfl.core.options import BadInput
from noisyfl.core.registry import split_component, split_method
from noisyfl.data.own_files import OwnFiles
from noisyfl.data.roots import NotRead
from noisyfl.experiments.config import Overlay
from noisyfl.experiments.setting import merge
from noisyfl.specs.catalogue import methods
from noisyfl.specs.identity import with_seed
from noisyfl.specs.spec import canonical_run


@dataclass(frozen=True)
class RunSpecs:
    """Makes the specs of the runs of one experiment under one scale.

    Attributes:
        own: reads a user's own files; None: none is read.
        config_name: what error messages call the scale's file.
        name: of the experiment.
        methods: the options that the experiment's paper runs each method with.
    """

    overlay: Overlay
    own: OwnFiles | None
    config_name: str
    name: str
    methods: Mapping[str, Mapping[str, Any]]

    def of(
        self,
        part: str,
        setting: Mapping[str, Any],
        method: str | Mapping[str, Any],
        seeds: Sequence[int],
        where: str,
        options: Mapping[str, Any] | None = None,
        overlay: bool = True,
    ) -> list[dict[str, Any]]:
        """The canonical specs of runs in a paper's setting, one per seed.

        The setting's ``clients`` becomes an option of the partition, unless that has its own.

        Args:
            part: the table or figure that the runs are for, ``<experiment>/<name>``.
            setting: as the paper has it.
            method: as the file has it.
            where: what the error messages call the runs.
            options: added to the method's.
            overlay: whether the scale's values override the paper's.
        """
        given = self.raw(part, setting, method, where, options, overlay)
        try:
            spec = canonical_run({**given, "seed": seeds[0]}, where, self.own)
        except NotRead:
            raise
        except BadInput as error:
            if overlay and given != self.raw(part, setting, method, where, options, overlay=False):
                error.args = (f"{error.args[0]} (with the overlay of {self.config_name})",)
            raise
        return [with_seed(spec, seed) for seed in seeds]

    def raw(
        self,
        part: str,
        setting: Mapping[str, Any],
        method: str | Mapping[str, Any],
        where: str,
        options: Mapping[str, Any] | None = None,
        overlay: bool = True,
    ) -> dict[str, Any]:
        """A run in a paper's setting before defaults are filled in, and without a seed; see
        :meth:`of`.
        """
        given = dict(setting)
        parts = self._method(method, options or {}, overlay, where)
        if overlay:
            overrides = self.overlay.settings_for(given.get("dataset"), self.name, part)
            given = merge(given, *(one.as_given() for one in overrides))
        clients = given.pop("clients", None)
        if clients is not None and "partition" in given:
            kind, values = split_component(given["partition"], "partition", f"{where}: partition")
            given["partition"] = {"name": kind, "clients": clients, **values}
        given["method"] = parts[0] if len(parts) == 1 else {"parts": parts}
        return given

    def _method(
        self, raw: str | Mapping[str, Any], options: Mapping[str, Any], overlay: bool, where: str
    ) -> list[dict[str, Any]]:
        """A method's parts, with the options of paper, column, row and scale; later ones win.

        What a row gives as 0, such as a stage that begins at once, is in proportion at any scale.
        """
        parts = split_method(raw, f"{where}.method")
        if options and len(parts) > 1:
            raise BadInput(
                f"{where}: got options {dict(options)!r} for a combination, expected one method"
            )
        scales = self.overlay.methods if overlay else {}
        combination = "+".join(part["name"] for part in parts)

        def options_for(part: Mapping[str, Any], among: Mapping[str, Any]) -> dict[str, Any]:
            is_partner = part is parts[-1] and len(parts) > 1
            return among.get(part["name"], {}) | (among.get(combination, {}) if is_partner else {})

        def scaled(part: Mapping[str, Any]) -> dict[str, Any]:
            variants = methods()[part["name"]].variants if part["name"] in methods() else {}
            row = {**variants.get(str(part.get("variant")), {}), **options, **part}
            zero = {name for name, value in row.items() if value == 0 and value is not False}
            return {k: v for k, v in options_for(part, scales).items() if k not in zero}

        return [
            {**options_for(part, self.methods), **options, **part, **scaled(part)} for part in parts
        ]
