#!/usr/bin/env bash
# What a borrowed GPU needs, packed in a clone without one; docs/first-gpu.md says how it is used.
#   benchmarks/lease/pack.sh build     specs, wheels, and CIFAR-10 in two halves: data/lease, lease1, lease2
#   benchmarks/lease/pack.sh hide      take reproduced/ out of git's index, if tracked files are sent along
#   benchmarks/lease/pack.sh show      what would be sent with each of the two calls, in MiB
#   benchmarks/lease/pack.sh restore   put the index back; before any commit
#   benchmarks/lease/pack.sh bring FOLDER   unpack into results/ what came back
# CIFAR is the folder with CIFAR-10 as torchvision lays it out; CPU_SPECS a file with paths of specs, one a
# line, which are trained on the processor's other cores meanwhile.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
: "${CIFAR:=data/cifar-10-batches-py}" "${CPU_SPECS:=/dev/null}" "${PYTHON:=.venv/bin/python}"
kit=benchmarks/lease
exclude=$(git rev-parse --git-path info/exclude)

# Only what the borrowed machine's image lacks: Python 3.12 with torch, and no network.
wheels() {
  mkdir -p data/lease/whl
  "$PYTHON" -m pip download -q --only-binary=:all: --no-deps --python-version 3.12 --implementation cp \
    --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
    -d data/lease/whl "$@"
}
version() { sed -n "s/^$1==\([^ ;]*\).*/\1/p" envs/requirements.txt | head -1; }

case ${1:-} in
  build)
    mkdir -p data/lease data/lease1 data/lease2
    cp $kit/{lease.py,cifar10.py} data/lease/
    ls data/lease/whl/pydantic_core-* >/dev/null 2>&1 ||
      wheels $(for each in pydantic pydantic-core annotated-types typing-inspection typing-extensions filelock; do
        echo "$each==$(version "$each")"; done)
    PYTHONPATH=workflow "$PYTHON" $kit/specs.py $kit/lease.yaml data/lease "$CPU_SPECS"
    PYTHONPATH=workflow "$PYTHON" $kit/cifar10.py pack "$CIFAR" data/lease1 data/lease2
    ;;
  hide)
    grep -sqx '/reproduced/' "$exclude" || echo '/reproduced/' >>"$exclude"
    git rm -rq --cached reproduced
    echo "reproduced/ is out of the index, and stays on disk. Before you commit: $0 restore"
    ;;
  restore)
    sed -i '\#^/reproduced/$#d' "$exclude"
    git reset -q -- reproduced
    git status --short | head
    ;;
  show)
    mib() { du -cb --files0-from=- | tail -1 | awk '{printf "%.1f", $1 / 2^20}'; }
    for call in lease1 lease2; do
      { git ls-files -z; git ls-files -z --others --exclude-standard; find data/lease data/$call -type f -print0; } |
        mib | sed "s|^|data/lease + data/$call + what git knows: |; s|$| MiB|"; echo
    done
    ;;
  bring)
    mkdir -p results
    cat "$2"/back.* | tar -C results -xJf -
    ls results/runs
    ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2 ;;
esac
