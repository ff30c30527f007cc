from pathlib import PurePosixPath

from infra.bundles.archive import unzipped_bytes, write_archive


def test_the_same_files_give_the_same_bytes_in_any_order(tmp_path):
    (tmp_path / "a.py").write_text("one")
    (tmp_path / "b.so").write_text("two!")
    files = [PurePosixPath("a.py"), PurePosixPath("b.so")]
    first, second = tmp_path / "1.zip", tmp_path / "2.zip"
    total = write_archive(first, tmp_path, files, is_compressed=True)
    write_archive(second, tmp_path, reversed(files), is_compressed=True)
    assert first.read_bytes() == second.read_bytes()
    assert unzipped_bytes(first) == total == 7
