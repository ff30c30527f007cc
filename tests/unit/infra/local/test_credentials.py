from infra.local.credentials import load_credentials, make_credentials


def test_credentials_are_made_once_and_kept_private(tmp_path):
    made = make_credentials(tmp_path, {})
    assert make_credentials(tmp_path, {}) == made == load_credentials(tmp_path)
    assert len(made.jwt_secret.encode()) >= 32
    assert (tmp_path / "credentials.json").stat().st_mode & 0o077 == 0


def test_what_the_person_set_is_what_status_tells(tmp_path):
    before = make_credentials(tmp_path, {})
    after = make_credentials(tmp_path, {"BURSTCHAT_PUSH_ACCESS_KEY_ID": "mine"})
    assert after.push_access_key_id == "mine"
    assert after.push_secret_access_key == before.push_secret_access_key
    assert load_credentials(tmp_path) == after
