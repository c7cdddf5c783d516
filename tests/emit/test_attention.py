"""Family "attention": every kernel goes to its template, and a batch may mix them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutlass_tuner import emit
from cutlass_tuner.emit import EMITTERS
from cutlass_tuner.emit.example88 import Example88
from cutlass_tuner.emit.flash import Flash
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import KernelConfig
from emit.attention_kernels import HALF, kernel, tma

EMITTER = EMITTERS["attention"]
FLASH = kernel(template="flash", tile_kv=80)
MIXED = [FLASH, kernel(), tma(), kernel(template="flash")]


def at(source: str, words: list[str]) -> list[int]:
    """Where each of these stands for the first time; a missing one raises."""
    return [source.index(word) for word in words]


@pytest.mark.parametrize(
    ("config", "template"), [(kernel(), Example88()), (tma(), Example88()), (FLASH, Flash())]
)
def test_a_kernel_goes_to_its_template(config: KernelConfig, template: Example88 | Flash) -> None:
    assert EMITTER.symbol(config) == template.symbol(config) == f"cutlass_tuner_attention_{config.digest}"
    assert EMITTER.batch_key(config) == template.batch_key(config)
    assert EMITTER.asked(config) == template.asked(config)
    assert template.device_text(config, HALF) in EMITTER.device_source([config], HALF)
    assert template.host_text(config, HALF) in EMITTER.host_source([config], HALF)


def test_an_unknown_template_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match=r"knob template = 'triton' of .*: one of example88, flash is needed"):
        EMITTER.device_source([kernel(template="triton")], HALF)


def test_a_mixed_batch_keeps_its_order() -> None:
    device, host = EMITTER.device_source(MIXED, HALF), EMITTER.host_source(MIXED, HALF)
    entries = [f"{EMITTER.symbol(config)}(" for config in MIXED]
    assert at(device, entries) == sorted(at(device, entries))
    table = host[host.index("kKernels[]") :]
    rows = [f'"{EMITTER.symbol(config)}"' for config in MIXED]
    assert at(table, rows) == sorted(at(table, rows))
    assert [table.count(row) for row in rows] == [1] * len(MIXED)


def test_includes_come_once_and_the_shim_first() -> None:
    host = EMITTER.host_source(MIXED, HALF)
    includes = [line for line in host.splitlines() if line.startswith("#include")]
    assert includes[0] == '#include "emit/host_shim.h"'
    assert includes[-1] == '#include "emit/host_exports.h"'
    assert len(includes) == len(set(includes))
    alone = EMITTER.host_source([FLASH], HALF)
    assert "host_shim" not in alone
    assert "example88" not in EMITTER.device_source([FLASH], HALF).split("\n\n")[0]


def test_the_table_does_not_bear_the_last_kernels_name() -> None:
    """Else a compiler's message about the table would make that kernel the culprit."""
    host = EMITTER.host_source(MIXED, HALF)
    lines = host[: host.index("kKernels[]")].splitlines()
    assert [line for line in lines if line.startswith("#line")][-1] == '#line 1 "host.cpp"'


def test_every_header_is_there_and_named_once() -> None:
    names = [path.name for path in EMITTER.headers]
    assert len(names) == len(set(names))  # a build's key knows headers by name
    assert all(path.is_file() for path in EMITTER.headers)
    ours = {path.name for path in Path(emit.__file__).parent.glob("example88_*.h")}
    assert ours <= set(names)


def test_a_definition_stands_alone() -> None:
    """What an exporter is given of a kernel compiles by itself."""
    assert EMITTER.type_definitions(FLASH, HALF) == EMITTER.device_source([FLASH], HALF)
    assert (EMITTER.includes(), EMITTER.kernel_wrapper(FLASH)) == ((), "")
    assert EMITTER.template_arguments(FLASH) == EMITTER.kernel_type(FLASH) == f"{EMITTER.symbol(FLASH)}_t"
