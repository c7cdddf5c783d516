"""How effective configs are told to a proposer: as it would ask for them, in differences from the default."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutlass_tuner.records import Config, DeviceFacts, KernelConfig, LaunchConfig, Problem, Scalar
from cutlass_tuner.space import Space
from cutlass_tuner.spelling import knobs_text

Knobs = Mapping[str, Scalar]


def asked_kernel(space: Space, kernel: KernelConfig, device: DeviceFacts) -> dict[str, Scalar]:
    """The knobs that must be given beside the defaults to get this kernel, without those its problems decide.

    An effective kernel has numbers where it was asked for "auto": such a knob is not among them where its
    default comes to the same. UserError for a kernel that is none of this space.
    """
    default = space.kernel(kernel.family).knobs

    def resolved(knobs: Knobs) -> KernelConfig:
        return space.effective(KernelConfig(family=kernel.family, knobs=dict(knobs)), device)

    asked = _needed(kernel.knobs, default, resolved)
    given = space.family(kernel.family).given
    return {name: value for name, value in asked.items() if name not in given}


def kernel_text(space: Space, kernel: KernelConfig, device: DeviceFacts) -> str:
    """As name=value; with the family where the space has several. UserError as `asked_kernel`."""
    text = knobs_text(asked_kernel(space, kernel, device))
    return text if len(space.families) == 1 else f"{kernel.family}: {text}"


def launch_text(space: Space, config: Config, problem: Problem, device: DeviceFacts) -> str:
    """The launch knobs that must be given to get this launch on this problem, as name=value."""
    kernel, default = config.kernel, space.launch(config.kernel.family).knobs

    def folded(knobs: Knobs) -> LaunchConfig | None:
        """None where they are illegal: folding may hide what is wrong with a launch."""
        launch = LaunchConfig(knobs=dict(knobs))
        if space.check(kernel, launch, problem, device).illegal:
            return None
        return space.effective_launch(kernel, launch, problem, device)

    return knobs_text(_needed(config.launch.knobs, default, folded))


def _needed(
    knobs: Knobs, default: Knobs, effective: Callable[[Knobs], KernelConfig | LaunchConfig | None]
) -> dict[str, Scalar]:
    """The fewest of `knobs`, taken one by one, that with the defaults are `effective`ly the same."""
    meant = effective(knobs)
    left = dict(knobs)
    for name, value in default.items():
        if meant is not None and effective({**default, **left, name: value}) == meant:
            left.pop(name, None)
    return left
