"""What must not leave a machine, and what must survive."""

from __future__ import annotations

import json
import time

import pytest

from cutlass_tuner.export.scrub import deeply, scrubbed


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("/home/alice/work/gemm.cu(12): error", "gemm.cu(12): error"),
        ("nvcc -I/opt/cuda/include -I /srv/cutlass/include -o/a/b", "nvcc -Iinclude -I include -o/a/b"),
        ("PATH=/usr/bin:/home/bob/bin", "PATH=bin:bin"),
        ("cannot open '/mnt/my disk/spaces/x.yaml'", "cannot open 'x.yaml'"),
        ("#include </usr/include/cuda.h>", "#include <cuda.h>"),
        ("cd ~/secret/work; ls ~alice/x", "cd work; ls x"),
        ("home is /home/alice, or /root", "home is ~, or ~"),
        ("wrote /scratch/run/out/", "wrote out"),
        ('{"why": "see\\n/home/alice/log.txt"}', '{"why": "see\\nlog.txt"}'),
        ('{"file": "\\/home\\/alice\\/log.txt"}', '{"file": "log.txt"}'),
        ("""'/a//b c' '//x y' "/mnt/z/" '/one word'""", """'b c' '//x y' "z" '/one word'"""),
        (r"in C:\Users\bob\lab\x.cu and d:/lab/y.cu", "in x.cu and y.cu"),
        (r"home is C:\Users\bob", "home is ~"),
        (r"on \\gpu17\share\x.cu, \\gpu17\share", "on x.cu, share"),
        (r"""'C:\Program Files\bob smith\x.cu' '\\gpu17\my share\x.cu'""", "'x.cu' 'x.cu'"),
        (
            r'{"a": "\nC:\\Users\\bob\\x.cu\nnext", "b": "\\\\gpu17\\share"}',
            r'{"a": "\nx.cu\nnext", "b": "share"}',
        ),
        (r"{\"a\": \"C:\\\\Users\\\\bob smith\\\\x.cu\"}", r"{\"a\": \"x.cu\"}"),
    ],
)
def test_an_absolute_path_becomes_its_last_component(text: str, left: str) -> None:
    assert scrubbed(text) == left


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("key sk-ant-api03-AbCd_efGh-1234", "AbCd_efGh-1234"),
        ("Authorization: Bearer abc.def-123456", "abc.def-123456"),
        ("x-api-key: 0123456789abcdef", "0123456789abcdef"),
        ("ANTHROPIC_API_KEY=abcdef0123456789", "abcdef0123456789"),
        ('{"api_key": "abcdef0123456789"}', "abcdef0123456789"),
        ('{\\"token\\": \\"abcdef0123456789\\"}', "abcdef0123456789"),
        ("password = hunter2hunter2", "hunter2"),
        ("password=a!sEcReT#$%,sEcReT", "sEcReT"),
        (r"passwd: a\qsEcReT", "sEcReT"),
        ("x-gw-pass: v7", "v7"),
        ("X-Gateway-Sign-V2: v7", "v7"),
        ("AUTH=v7", "v7"),
        ("GW_PASS=v7", "v7"),
        ("auth: v7", "v7"),
        ("db_pwd=v7", "v7"),
        ("Authorization: Basic v7", "v7"),
        ("ghp_abcdefghij0123456789", "abcdefghij0123456789"),
        ("hf_abcdefghij0123456789", "abcdefghij0123456789"),
        ("AKIAABCDEFGHIJKLMNOP", "ABCDEFGHIJKLMNOP"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", "c2lnbmF0dXJl"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\n-----END RSA PRIVATE KEY-----", "MIIEpAIB"),
        ("https://user:pass@proxy.corp.example:3128/v1?token=1", "pass"),
        ("https://proxy.corp.example/v1", "corp"),
        ("file:///home/alice/x", "alice"),
        ("alice@gpu-17.corp.example", "gpu-17"),
        ("203.0.113.9:8443", "203.0.113.9"),
        ("192.168.4.17", "4.17"),
        ("10.1.2.3", "10.1.2.3"),
    ],
)
def test_credentials_and_addresses_are_removed(text: str, secret: str) -> None:
    left = scrubbed(f"before {text} after")
    assert left.startswith("before ") and left.endswith(" after")
    assert "[removed]" in left and secret not in left


@pytest.mark.parametrize(
    "text",
    [
        "torch's time / ours, us/launch, m/n, (a+b)/c/d, 1/2, TFLOP /s, and/or, fp16/fp32",
        "<shapes>\n| s1 | 64x64x64 |\n</shapes>",
        "sm90_gmma_builder.inl in cutlass/gemm/collective/builders, ../cute/arch/mma_sm90.hpp, ./x/y",
        "hgemm:tn:4096x4096x4096x1 tma_ws:tile_m=128,stages=4|swizzle=2",
        "CUDA 13.0.88, driver 580.159.04, cuBLAS 13.1.0.3, 12 tokens, max_tokens=32000",
        "the bearer of a basic idea; a token of trust",
        "//comment, a // b, 50 %/SM",
        "first pass: load A; two_pass=1; the sign: -1; token: 5; a key: x; author: me; problem_key=s1",
        r'{"a": "\\alpha\\beta and M:\n128, \"\\frac a/b\""}',
    ],
)
def test_what_is_no_path_and_no_secret_stays(text: str) -> None:
    assert scrubbed(text) == text


def test_scrubbing_twice_changes_nothing_more() -> None:
    text = "/home/alice/a/b sk-ant-api03-abcdefgh Bearer abcdefghijk https://x.example/y"
    assert scrubbed(scrubbed(text)) == scrubbed(text)


def test_a_reply_of_json_stays_json() -> None:
    reply = {"ideas": [{"hypothesis": "see /home/alice/notes.md: sk-ant-api03-abcdefgh", "expected": 1.05}]}
    left = json.loads(scrubbed(json.dumps(reply)))
    assert left == {"ideas": [{"hypothesis": "see notes.md: [removed]", "expected": 1.05}]}


@pytest.mark.parametrize(
    "said", ['auth: "v7"', "password=a\nb", "password=a\\", r"at C:\Users\bob" + "\\", "pwd=é\t"]
)
def test_a_value_ends_before_what_json_needs(said: str) -> None:
    left = json.loads(scrubbed(json.dumps({"said": said, "more": [said]})))
    assert left.keys() == {"said", "more"}
    assert not {"v7", "bob"} & set(left["said"].replace('"', " ").replace("\\", " ").split())


def test_texts_are_scrubbed_wherever_they_are_and_all_else_stays() -> None:
    value = {"a": ["/home/alice/x", 1, None, True, {"b": ("/home/bob/y", 1.5)}]}
    assert deeply(value) == {"a": ["x", 1, None, True, {"b": ["y", 1.5]}]}


PARTS = ["a-", "a.", "a/", "~", "/", "/a", "a", "'/", "token=", 'token="', "1.", "eyJaaaaaaaa.", "\\/", "\\",
         "x-", " x-passpass", "KEY_", "C:\\a", "'C:\\", "\\\\a", "-----BEGIN ", "bearer "]  # fmt: skip


@pytest.mark.parametrize("opening", ["", "'/", "'C:\\", "password="])
@pytest.mark.parametrize("part", PARTS)
def test_a_hostile_text_takes_a_time_in_proportion_to_its_length(part: str, opening: str) -> None:
    """In proportion to its square, this one would take minutes."""
    text = opening + part * (2**18 // len(part))
    began = time.process_time()
    scrubbed(text)
    assert time.process_time() - began < 1
