"""Building kernels: what is built, what is found again, and what happens when compiler, folder or file fail."""

from __future__ import annotations

import logging
import os
import shutil
import stat
import subprocess
import sys
import textwrap

import pytest
import torch

from minicompile.errors import CompileError, CompilerMissing
from minicompile.runtime import cache, compiler, cpp_build, cpu, openmp
from minicompile.runtime.launch import load_kernel

pytestmark = pytest.mark.skipif(compiler.compiler() is None, reason="no C++ compiler")

TYPES = "typedef long int64_t;\n"
ANSWER = TYPES + 'extern "C" int answer(void **, const int64_t *) { return 42; }\n'


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache folder of this test's own."""
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def unique(name: str) -> str:
    return ANSWER.replace("answer", name)


def test_a_source_is_built_once(folder):
    path = cpp_build.build_shared_object(ANSWER)
    assert path.parent == folder and path.with_suffix(".cpp").read_text() == ANSWER
    built = path.stat().st_mtime_ns
    assert cpp_build.build_shared_object(ANSWER) == path and path.stat().st_mtime_ns == built
    assert cpp_build.build_shared_object(unique("other")) != path
    assert sorted(p.suffix for p in folder.iterdir()) == [".cpp", ".cpp", ".so", ".so"]


def test_a_library_that_was_cut_off_is_built_again():
    path = cpp_build.build_shared_object(ANSWER)
    whole = path.read_bytes()
    for content in (b"", whole[:40], whole[:-1], b"not a library" * 100):
        path.unlink()
        path.write_bytes(content)
        assert not cpp_build.is_whole_library(path)
        assert cpp_build.is_whole_library(cpp_build.build_shared_object(ANSWER))


def test_removing_the_cache_leaves_loaded_kernels_alone(folder):
    source = TYPES + 'extern "C" int set(void **b, const int64_t *s) { *(float *)b[0] = s[0]; return 0; }\n'
    kernel = load_kernel(cpp_build.build_shared_object(source), "set", 1, 1)
    assert cache.clear() == 2
    shutil.rmtree(folder)
    x = torch.zeros(1)
    kernel(x, 7)
    assert x.item() == 7
    again = load_kernel(cpp_build.build_shared_object(source), "set", 1, 1)  # the folder is made again
    again(x, 8)
    assert x.item() == 8


def test_two_processes_build_the_same_kernel(folder):
    program = textwrap.dedent(f"""
        from minicompile.runtime import cpp_build, launch
        import torch
        path = cpp_build.build_shared_object({unique("raced")!r})
        try:
            launch.load_kernel(path, "raced", 0, 0)()
        except launch.KernelError as error:
            print(error.code)
    """)
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in running:
        out, err = process.communicate(timeout=120)
        assert (out.strip(), process.returncode) == ("42", 0), err
    assert sorted(p.suffix for p in folder.iterdir()) == [".cpp", ".so"]  # no scratch file is left


def test_refused_source_raises_with_the_compilers_words(folder):
    with pytest.raises(CompileError) as caught:
        cpp_build.build_shared_object("int broken( {")
    assert caught.value.source_path.read_text() == "int broken( {"
    assert "error" in caught.value.output
    assert [p.suffix for p in folder.iterdir()] == [".cpp"]


def test_no_compiler(monkeypatch):
    monkeypatch.setenv("CXX", "/no/such/compiler")
    with pytest.raises(CompilerMissing, match=r"\$CXX is '/no/such/compiler'"):
        cpp_build.build_shared_object(ANSWER)
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompilerMissing, match="apt install g"):
        cpp_build.build_shared_object(ANSWER)


def test_a_compiler_that_cannot_be_started(monkeypatch, tmp_path):
    broken = tmp_path / "cxx"
    broken.write_text("no program")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    with pytest.raises(CompilerMissing, match="can't be started"):
        cpp_build.build_shared_object(unique("never"))


def test_a_failure_that_only_looks_like_the_folders(monkeypatch, tmp_path):
    broken = tmp_path / "cxx"
    broken.write_text("#!/bin/sh\necho 'cc1plus: Permission denied' >&2; exit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setattr(cache, "_temporary", {})
    with pytest.raises(CompileError, match="Permission denied"):
        cpp_build.build_shared_object(unique("never"))


def test_a_compiler_that_breaks_down_is_run_without_its_vectorizer(monkeypatch, tmp_path, caplog):
    real = shutil.which("g++") or shutil.which("c++")
    fragile = tmp_path / "fragile"
    fragile.write_text(f"""#!/bin/sh
case "$*" in
    *-fno-tree-vectorize*|*--version*|*-march*-E*) exec {real} "$@" ;;
esac
echo "kernel.cpp:1:1: internal compiler error: in extract_insn" >&2
exit 1
""")
    fragile.chmod(0o755)
    monkeypatch.setenv("CXX", str(fragile))
    library = cpp_build.build_shared_object(unique("breaks"))
    assert load_kernel(library, "breaks", 0, 0) is not None
    assert "built without AVX-512 and its vectorizer" in caplog.text


def test_cxx_is_honoured(monkeypatch, tmp_path):
    wrapper = tmp_path / "my compiler"
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\nexec {shutil.which("c++")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", f"'{wrapper}' -DEXTRA=1")
    found = compiler.compiler()
    assert found.path == wrapper and found.command[1:] == ("-DEXTRA=1",) and found.version
    path = cpp_build.build_shared_object(unique("with_cxx"))
    assert "-DEXTRA=1 -x c++" in (tmp_path / "calls").read_text()
    monkeypatch.delenv("CXX")
    assert cpp_build.build_shared_object(unique("with_cxx")) != path


def test_kernels_run_on_the_openmp_runtime_of_torch():
    if openmp.torch_runtime() is None:
        pytest.skip("this torch has no OpenMP")
    source = TYPES + textwrap.dedent("""
        extern "C" int omp_get_max_threads(void);
        extern "C" int threads(void **buffers, const int64_t *) {
            *(int *)buffers[0] = omp_get_max_threads();
            int counted = 0;
            #pragma omp parallel reduction(+ : counted)
            counted += 1;
            ((int *)buffers[0])[1] = counted;
            return 0;
        }
    """)
    kernel = load_kernel(cpp_build.build_shared_object(source), "threads", 1, 0)
    before, seen = torch.get_num_threads(), torch.zeros(2, dtype=torch.int32)
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            kernel(seen)
            assert seen.tolist() == [count, count]
    finally:
        torch.set_num_threads(before)
    assert openmp.loaded_runtimes() == [openmp.torch_runtime()]


def test_functions_of_the_c_library_are_found():
    """Though libc is not linked: every process has it. libm is, for those that a kernel calls."""
    source = TYPES + textwrap.dedent("""
        extern "C" void *aligned_alloc(__SIZE_TYPE__, __SIZE_TYPE__);
        extern "C" int called(void **buffers, const int64_t *sizes) {
            double *x = (double *)buffers[0], *copy = (double *)aligned_alloc(64, 64);
            __builtin_memcpy(copy, x, sizes[0] * 8);
            for (int64_t i = 0; i < sizes[0]; i++)
                x[i] = __builtin_pow(copy[i], 2.5) + (double)((__int128)(1e30 * copy[i]) / (__int128)1e29);
            __builtin_free(copy);
            return 0;
        }
    """)
    kernel = load_kernel(cpp_build.build_shared_object(source), "called", 1, 1)
    x = torch.tensor([1.0, 2.0, 9.0], dtype=torch.float64)
    want = x.pow(2.5) + torch.tensor([10.0, 20.0, 90.0], dtype=torch.float64)
    kernel(x, 3)
    torch.testing.assert_close(x, want)


def test_denormals_nans_and_wrapping_are_as_in_eager():
    """The flags change no value, and loading a library leaves the processor's mode alone."""
    source = TYPES + textwrap.dedent("""
        extern "C" int values(void **buffers, const int64_t *sizes) {
            float *x = (float *)buffers[0];
            int *n = (int *)buffers[1];
            for (int64_t i = 0; i < sizes[0]; i++) {
                x[i] = x[i] * 0.5f + (x[i] - x[i]);
                n[i] = n[i] + 1 > n[i];
            }
            return 0;
        }
    """)
    kernel = load_kernel(cpp_build.build_shared_object(source), "values", 2, 1)
    x = torch.tensor([1e-39, float("inf"), float("nan"), -0.0, 3.0] * 7)
    n = torch.full((35,), 2**31 - 1, dtype=torch.int32)
    want = x * 0.5 + (x - x)
    kernel(x, n, 35)
    assert torch.equal(x.view(torch.int32).isnan(), want.view(torch.int32).isnan())
    assert torch.equal(x.nan_to_num(), want.nan_to_num()) and x[0] != 0
    assert n.unique().tolist() == [0]
    assert (torch.tensor([1e-39]) * 1).item() != 0


@pytest.mark.parametrize("words", ["No space left on device", "Read-only file system"])
def test_a_full_folder_means_a_temporary_one(words, monkeypatch, tmp_path, caplog, folder):
    """A compiler that can't write where the cache is, but can elsewhere."""
    wrapper = tmp_path / "cxx"
    wrapper.write_text(
        f"#!/bin/sh\ncase \"$*\" in *{folder}*) echo 'cannot write: {words}' >&2; exit 1;; esac\n"
        f'exec {shutil.which("c++")} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrapper))
    monkeypatch.setattr(cache, "_temporary", {})
    with caplog.at_level(logging.WARNING, "minicompile.cache"):
        first, second = (cpp_build.build_shared_object(unique(name)) for name in ("one", "two"))
    assert first.parent == second.parent != folder and cpp_build.is_whole_library(second)
    assert len(caplog.records) == 1 and words in caplog.text and str(folder) in caplog.text


def test_the_folder_is_private(folder):
    cpp_build.build_shared_object(ANSWER)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_flags_and_processor():
    flags = compiler.compiler().flags()
    assert not any(flag.startswith(("-ffast-math", "-Ofast", "-funsafe")) for flag in flags)
    assert "-ffp-contract=off" in flags
    assert cpu.simd_name() in {"avx512", "avx2", "avx", "sse2", "sve", "neon", "scalar"}
    assert len(cpu.fingerprint()) == 16
    assert os.path.exists(compiler.compiler().path)
