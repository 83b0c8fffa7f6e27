#!/bin/sh
# Regenerate the stubs into a temporary folder and compare them with the committed ones.
set -eu
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
"$BIN/python" -m grpc_tools.protoc -I protos --python_out="$fresh" --pyi_out="$fresh" --grpc_python_out="$fresh" \
  --plugin=protoc-gen-mypy_grpc="$BIN/protoc-gen-mypy_grpc" --mypy_grpc_out=quiet:"$fresh" \
  protos/dprelease/wire/v1/*.proto
if ! diff -r -x __init__.py -x __pycache__ "$fresh/dprelease/wire/v1" dprelease/wire/v1; then
  echo "The committed stubs differ from what the protos generate. Run: make protos" >&2
  exit 1
fi
echo "stubs are up to date"
