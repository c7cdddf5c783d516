"""Attention kernels: each goes to the template that its knob `template` names, or to its family's only one.

A batch is of one family and may mix its templates: its sources are the templates' parts put together, in the
given order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from cutlass_tuner.emit import knobs
from cutlass_tuner.errors import UserError
from cutlass_tuner.records import Contract, KernelConfig

_T = TypeVar("_T")


class Template(Protocol):
    """Kernels of one make, as parts of a source. A template's parts may stand beside any other's of its
    family."""

    @property
    def headers(self) -> tuple[Path, ...]:
        """Files of this package that the parts include; no two templates' share a name."""
        ...

    def symbol(self, kernel: KernelConfig) -> str: ...

    def batch_key(self, kernel: KernelConfig) -> str: ...

    def asked(self, kernel: KernelConfig) -> dict[str, int | tuple[int, ...]]: ...

    def device_includes(self) -> tuple[str, ...]:
        """Whole `#include` lines of a device source, once however many kernels follow."""
        ...

    def device_text(self, kernel: KernelConfig, contract: Contract) -> str:
        """The kernel's types and its `extern "C" __global__` entry point, under a `#line` of its symbol."""
        ...

    def host_includes(self) -> tuple[str, ...]: ...

    def host_text(self, kernel: KernelConfig, contract: Contract) -> str:
        """The kernel's types for the host compiler."""
        ...

    def host_row(self, kernel: KernelConfig, contract: Contract) -> str:
        """The kernel's line in a table of `LibraryKernel`, inside namespace cutlass_tuner."""
        ...


class Attention:
    """The emitter of attention's families. See `emitter.Emitter` for what each method promises.

    `families` holds each one's templates by name. Includes go in their order, whatever kernels come first: a
    template whose host part is particular about what stands before it is named first.
    """

    def __init__(self, families: Mapping[str, Mapping[str, Template]]) -> None:
        self._families = {family: dict(templates) for family, templates in families.items()}

    @property
    def headers(self) -> tuple[Path, ...]:
        templates = (template for known in self._families.values() for template in known.values())
        return tuple(_once(path for template in templates for path in template.headers))

    def symbol(self, kernel: KernelConfig) -> str:
        return self._of(kernel).symbol(kernel)

    def batch_key(self, kernel: KernelConfig) -> str:
        return self._of(kernel).batch_key(kernel)

    def asked(self, kernel: KernelConfig) -> dict[str, int | tuple[int, ...]]:
        return self._of(kernel).asked(kernel)

    def device_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str:
        includes = _once(line for template in self._used(kernels) for line in template.device_includes())
        return "\n".join(
            [_lines(includes), *(self._of(kernel).device_text(kernel, contract) for kernel in kernels)]
        )

    def host_source(self, kernels: Sequence[KernelConfig], contract: Contract) -> str:
        includes = _once(line for template in self._used(kernels) for line in template.host_includes())
        rows = (self._of(kernel).host_row(kernel, contract) for kernel in kernels)
        return "\n".join(
            [
                _lines(includes),
                *(self._of(kernel).host_text(kernel, contract) for kernel in kernels),
                # the table is about all kernels: without this its lines would name the last one
                '#line 1 "host.cpp"\n'
                '#include "emit/host_library.h"\n'
                "namespace cutlass_tuner {\n"
                f"static constexpr LibraryKernel kKernels[] = {{\n{''.join(rows)}}};\n"
                "}  // namespace cutlass_tuner\n",
                '#include "emit/host_exports.h"\n',
            ]
        )

    def includes(self) -> tuple[str, ...]:
        """None that every kernel shares: `type_definitions` brings its template's own."""
        return ()

    def type_definitions(self, kernel: KernelConfig, contract: Contract) -> str:
        """A device source of this kernel alone, its entry point included."""
        return self.device_source([kernel], contract)

    def kernel_type(self, kernel: KernelConfig) -> str:
        return f"{self.symbol(kernel)}_t"

    def kernel_wrapper(self, kernel: KernelConfig) -> str:
        """Nothing: a template's text defines types and entry point in one."""
        return ""

    def template_arguments(self, kernel: KernelConfig) -> str:
        return self.kernel_type(kernel)

    def _of(self, kernel: KernelConfig) -> Template:
        templates = self._templates(kernel)
        if len(templates) == 1:
            return next(iter(templates.values()))
        return templates[knobs.word(kernel, "template", templates)]

    def _templates(self, kernel: KernelConfig) -> Mapping[str, Template]:
        if kernel.family not in self._families:
            raise UserError(
                f"family {kernel.family} of {kernel.key}: one of {', '.join(self._families)} is needed"
            )
        return self._families[kernel.family]

    def _used(self, kernels: Sequence[KernelConfig]) -> list[Template]:
        used = [self._of(kernel) for kernel in kernels]
        return [template for template in self._templates(kernels[0]).values() if template in used]


def _once(items: Iterable[_T]) -> list[_T]:
    """Each item the first time it comes up."""
    return list(dict.fromkeys(items))


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
