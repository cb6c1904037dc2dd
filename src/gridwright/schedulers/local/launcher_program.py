"""The launcher's process. It imports nothing of the package, so that it is small and forks fast.

python -I -S launcher_program.py STATE NATIVE FILES... PLACES... RUNNER_LOCK RUNNER..., as `launcher` calls it
"""

import sys
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader


def main() -> None:
    """Load the native part alone, from where it lies, and serve the runner until it is gone."""
    native, *files = sys.argv[2:7]
    unified, unified_memory, memory, runner_lock, *runner = sys.argv[7:]
    loader = ExtensionFileLoader("gridwright._native", native)
    spec = spec_from_loader(loader.name, loader)
    if spec is None:
        sys.exit(f"{native} cannot be loaded")
    module = module_from_spec(spec)
    loader.exec_module(module)
    places = (unified, unified_memory == "yes", memory)
    module.run_launcher([int(file) for file in files], places, runner_lock, runner)


if __name__ == "__main__":
    main()
