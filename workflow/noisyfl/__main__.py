"""The command line: ``python -m noisyfl``, for what Snakemake is not needed for."""

from __future__ import annotations

import os
import sys

from noisyfl.commands.arguments import function_of
from noisyfl.commands.parser import parser
from noisyfl.core.artifacts import DamagedArtifact
from noisyfl.core.options import BadInput, permitted, within
from noisyfl.core.plugins import load as load_plugins
from noisyfl.core.script import end_quietly_on_ctrl_c
from noisyfl.experiments.config import (
    DEFAULTS,
    check_device,
    check_folder,
    check_tracker,
    load_config,
)


def main() -> None:
    """Run a command; a mistake of the user's ends with one line, not a traceback."""
    arguments = vars(parser().parse_args())
    command = arguments.pop("command")
    try:
        settings = load_config(arguments["config"]) if "config" in arguments else DEFAULTS
        for key in ("results", "device"):
            if arguments.get(key, ...) is None:
                arguments[key] = getattr(settings, key)
        if "device" in arguments:
            with within(where="--device"):
                check_device(arguments["device"])
        if "results" in arguments:
            check_folder(arguments["results"], "--results")
        if arguments.get("data", ...) is None:
            arguments["data"] = settings.data.folders
        with within(where="--trackers"):
            for tracker in arguments.get("trackers", ()):
                check_tracker(tracker)
        function = function_of(command)
        with permitted():
            load_plugins([*settings.plugins, *arguments.get("plugins", ())])
            if "config" not in arguments:
                arguments.pop("plugins", None)
            if command == "runs.train_specs":
                end_quietly_on_ctrl_c()
            function(**arguments)
        sys.stdout.flush()
    except (BadInput, DamagedArtifact) as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit(130)  # as a shell expects it of Ctrl-C
    except BrokenPipeError:
        # The reader has closed the pipe (`methods | head`); Python would complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


if __name__ == "__main__":
    main()
