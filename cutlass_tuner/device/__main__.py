"""The child's outermost edge: requests in, replies out, one line each, until the parent is gone."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import traceback
from typing import TextIO

from pydantic import TypeAdapter, ValidationError

from cutlass_tuner.records import DeviceFacts, Failure
from cutlass_tuner.wire import (
    REPLIES,
    REQUESTS,
    Broken,
    Contest,
    Describe,
    Described,
    Reply,
    Request,
    TuneBaseline,
)


def describe() -> Described:
    """The device and the libraries really loaded. Raises RuntimeError where there is no GPU."""
    import importlib.metadata

    import pynvml
    import torch

    from cutlass_tuner.device import cublaslt

    properties = torch.cuda.get_device_properties(0)
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{str(properties.uuid).removeprefix('GPU-')}")
    driver_version = pynvml.nvmlSystemGetDriverVersion()
    arch = f"sm_{properties.major}{properties.minor}" + ("a" if properties.major >= 9 else "")
    return Described(
        device=DeviceFacts(
            name=properties.name,
            arch=arch,
            sm_count=properties.multi_processor_count,
            memory_bytes=properties.total_memory,
            l2_bytes=properties.L2_cache_size,
            smem_per_block_bytes=properties.shared_memory_per_block_optin,
            driver=driver_version if isinstance(driver_version, str) else driver_version.decode(),
            clock_mhz=pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
        ),
        cublas=cublaslt.version(),
        torch=torch.__version__,
        cuda_python=importlib.metadata.version("cuda-bindings"),
        libraries=libraries(),
    )


ATTENTION_PACKAGES = ("flash-attn", "flash-attn-3", "flash-attn-4", "nvidia-cutlass-dsl")


def libraries() -> dict[str, str]:
    """Versions of what baselines of attention come from, as far as they are here."""
    import importlib.metadata

    import torch

    found = {}
    if torch.backends.cudnn.is_available():
        number = torch.backends.cudnn.version() or 0  # 91900 is 9.19.0
        found["cuDNN"] = f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    for package in ATTENTION_PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class Child:
    """Answers requests. The arena, and with it the CUDA context, is made by the first that needs it."""

    def __init__(self) -> None:
        self._arena: object = None

    def answer(self, request: Request) -> Reply:
        if isinstance(request, Describe):
            return describe()
        from cutlass_tuner.device.contest import Arena

        if not isinstance(self._arena, Arena):
            self._arena = Arena()
        if isinstance(request, Contest):
            return self._arena.run(request)
        assert isinstance(request, TuneBaseline)
        return self._arena.tune_baseline(request)


def broken(error: Exception) -> Broken:
    """What an exception means for the parent: a fault of this request, or a context that is gone."""
    import torch

    from cutlass_tuner.device import contest, driver

    known = isinstance(error, contest.ReferenceFailed | torch.cuda.OutOfMemoryError)
    fatal = error.fatal if isinstance(error, driver.DriverError) else not known
    if isinstance(error, torch.cuda.OutOfMemoryError):
        torch.cuda.empty_cache()
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    detail = traceback.format_exc()[-4000:]
    return Broken(failure=Failure(stage="launch", reason=reason, detail=detail), fatal=fatal)


def serve(requests: TextIO, replies: TextIO) -> None:
    parse: TypeAdapter[Request] = TypeAdapter(Request)
    child = Child()
    for line in requests:
        try:
            reply = child.answer(parse.validate_json(line))
        except ValidationError as error:
            reply = Broken(failure=Failure(stage="worker", reason=f"bad request: {error}"), fatal=False)
        except Exception as error:  # the one outermost edge: every fault becomes a reply
            traceback.print_exc()
            reply = broken(error)
        replies.write(reply.model_dump_json() + "\n")
        replies.flush()


def die_with_parent() -> None:
    """Have the kernel end this process when the tuner is killed while a GPU kernel hangs: the pipe's
    end is read only between requests."""
    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def main() -> int:
    die_with_parent()
    try:
        incoming, outgoing = int(os.environ[REQUESTS]), int(os.environ[REPLIES])
    except (KeyError, ValueError):
        print("this is cutlass-tuner's measuring child; it is started by the tuner", file=sys.stderr)
        return 2
    with (
        os.fdopen(incoming, encoding="utf-8") as requests,
        os.fdopen(outgoing, "w", encoding="utf-8") as replies,
    ):
        serve(requests, replies)
    return 0


if __name__ == "__main__":
    sys.exit(main())
