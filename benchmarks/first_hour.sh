#!/usr/bin/env bash
# The first hour on a GPU, step by step: docs/first-gpu.md.
#
#   benchmarks/first_hour.sh prepare      specs, data and partitions of the runs (needs no GPU)
#   benchmarks/first_hour.sh test         the tests that a GPU concerns
#   benchmarks/first_hour.sh selftest     what the GPU computes, how fast it is: results/gpu.json
#   benchmarks/first_hour.sh train        whole runs side by side; again until it says that all are done
#   benchmarks/first_hour.sh benchmark    FedRN's network beside a plain loop
#   benchmarks/first_hour.sh archive      finished runs go to reproduced/
#
# Each step ends within MINUTES (test 2, selftest 5, train and benchmark 9), and begins only if prepare,
# test and selftest, those of them that stand before it, have passed. A rehearsal without a GPU:
# MINUTES=9 DEVICE=cpu SCALE=config/smoke.yaml TARGETS=fedrn_table9 benchmarks/first_hour.sh STEP
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step=${1:-}
case $step in
  test) : "${MINUTES:=2}" ;;
  selftest) : "${MINUTES:=5}" ;;
  *) : "${MINUTES:=9}" ;;
esac
: "${DEVICE:=cuda}" "${SCALE:=benchmarks/first_hour.yaml}"
: "${TARGETS:=fednoil_table1 fedrn_table2}" "${DATA:=data}"
: "${METHODS:=fedavg fedrn fednoil josrc coteaching rofl oracle}"
: "${PYTHON:=$(if [[ -x .venv/bin/python ]]; then echo .venv/bin/python; else command -v python3; fi)}"
: "${TOGETHER:=$(($(nproc) / 2 > 0 ? $(nproc) / 2 : 1))}"   # runs side by side, each with a thread or two
export OMP_NUM_THREADS=1 PYTHONPATH=workflow

folder=results/first_hour
specs=$folder/specs
steps=(prepare test selftest train benchmark archive)
gates=(prepare test selftest)
mkdir -p "$folder"
noisyfl() { "$PYTHON" -m noisyfl "$@"; }
within() { timeout --kill-after=20 $((MINUTES * 60)) "$@"; }

prepare() {
  local target
  rm -rf "$specs" "$folder"/*.passed   # of a rehearsal, say
  for target in $TARGETS; do noisyfl specs "$target" "$specs" --config "$SCALE"; done
  noisyfl train "$specs"/*.json --prepare --data "$DATA"
}

test() {
  local options=()
  ! "$PYTHON" -c 'import xdist' || options+=(-n auto)
  [[ $DEVICE == cpu ]] || options+=(-k "cuda or real or gpu_")
  if "$PYTHON" -c 'import pytest'; then
    within "$PYTHON" -m pytest -W default "${options[@]}" tests/simulation tests/data/augmentation
  else
    echo "pytest is not installed: the self-test makes the same comparisons"
  fi
}

selftest() {
  # First what the runs need, as half of the time is for checks.
  within "$PYTHON" -m noisyfl selftest --device "$DEVICE" --minutes $((MINUTES - 1)) \
    --models cnn2conv cnn4conv resnet18 --methods $METHODS
}

benchmark() { within "$PYTHON" -m benchmarks fedrn --device "$DEVICE" --repeat 1 --rounds 2; }

train() {
  local end=$((SECONDS + MINUTES * 60)) left=0 spec
  start_mps
  for spec in "$specs"/*.json; do
    while (($(jobs -rp | wc -l) >= TOGETHER)); do wait -n || true; done
    ((SECONDS < end)) || break
    # A run that is ended by the clock goes on from its checkpoint in the next call.
    timeout --kill-after=20 $((end - SECONDS)) \
      "$PYTHON" -m noisyfl train "$spec" --device "$DEVICE" --data "$DATA" &
  done
  wait
  for spec in "$specs"/*.json; do
    [[ -e results/runs/$(basename "$spec" .json)/provenance.json ]] || left=$((left + 1))
  done
  echo "runs left: $left"
  [[ $left == 0 ]]
}

start_mps() {
  [[ $DEVICE == cuda* ]] && command -v nvidia-cuda-mps-control >/dev/null || return 0
  export CUDA_MPS_PIPE_DIRECTORY=$PWD/$folder/mps CUDA_MPS_LOG_DIRECTORY=$PWD/$folder/mps
  mkdir -p "$CUDA_MPS_PIPE_DIRECTORY"
  trap 'echo quit | nvidia-cuda-mps-control' EXIT
  nvidia-cuda-mps-control -d && timeout 60 "$PYTHON" -c 'import torch; torch.zeros(1, device="cuda")' || {
    echo "MPS does not serve here: runs share the GPU without it"
    echo quit | nvidia-cuda-mps-control || true
    trap - EXIT
    unset CUDA_MPS_PIPE_DIRECTORY CUDA_MPS_LOG_DIRECTORY
  }
}

archive() { noisyfl archive --config "$SCALE"; }

[[ " ${steps[*]} " == *" $step "* ]] || { sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 2; }
for earlier in "${gates[@]}"; do
  [[ $earlier != "$step" ]] || break
  [[ -e $folder/$earlier.passed ]] || { echo "first: benchmarks/first_hour.sh $earlier" >&2; exit 1; }
done
rm -f "$folder/$step.passed"
"$step" 2>&1 | tee -a "$folder/$step.log"
touch "$folder/$step.passed"
