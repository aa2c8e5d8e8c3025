"""One list of settings: file, environment, flags."""

from dataclasses import fields

import pytest

from similia.service.settings import Settings, read_settings, without_password


def test_flags_beat_the_environment_which_beats_the_file(tmp_path):
    file = tmp_path / "similia.toml"
    file.write_text('port = 1\nrate = 5\nhost = "::1"\ntelemetry = false\n')
    environment = {"SIMILIA_PORT": "2", "SIMILIA_TRY_PAGE": "false", "SIMILIA_DATA": "x", "A": "b"}
    found, origin = read_settings(file, environment, {"port": 3, "burst": None})
    assert (found.port, found.rate, found.host, found.try_page) == (3, 5.0, "::1", False)
    assert origin == {
        "port": "flag",
        "rate": str(file),
        "host": str(file),
        "telemetry": str(file),
        "try_page": "environment",
    }


@pytest.mark.parametrize("each", fields(Settings), ids=lambda each: each.name)
def test_every_setting_is_documented_and_can_be_set_by_the_environment(each):
    assert each.metadata["doc"].endswith(".")
    value = str(each.default).lower() if isinstance(each.default, bool) else str(each.default)
    found, _ = read_settings(environment={f"SIMILIA_{each.name.upper()}": value}, flags={})
    assert getattr(found, each.name) == each.default


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"port": -1}, "port must be an integer of at least 0 and at most 65535, got -1"),
        ({"port": "many"}, "port must be an integer"),
        ({"port": 1.5}, "port must be an integer"),
        ({"port": True}, "port must be an integer"),
        ({"rate": float("nan")}, "rate must be a number"),
        ({"rate": float("inf")}, "rate must be a number"),
        ({"log_level": "loud"}, "log_level must be one of debug, info, warning, error, got 'loud'"),
        ({"telemetry": "perhaps"}, "telemetry must be true or false"),
        ({"max_body": 10}, "max_body must be an integer of at least 1024"),
        ({"max_body": 2**25, "max_buffered": 2**24}, "max_buffered must be at least max_body"),
        ({"embedder_key": 3}, r"embedder_key must be a text, got \*\*\*"),
    ],
)
def test_wrong_values_are_refused(given, words):
    with pytest.raises(ValueError, match=words):
        Settings(**given)


def test_unknown_names_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"environment: a setting must be one of .*, got 'prot'"):
        read_settings(environment={"SIMILIA_PROT": "1"})
    file = tmp_path / "x.toml"
    file.write_text("prot = 1")
    with pytest.raises(ValueError, match=r"x\.toml: a setting must be one of"):
        read_settings(file, {})
    file.write_text("port")
    with pytest.raises(ValueError, match="settings must be TOML"):
        read_settings(file, {})


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path):
    file = tmp_path / "deep.toml"
    file.write_text("rate = " + "[" * 100_000)
    with pytest.raises(ValueError, match="settings must be TOML"):
        read_settings(file, {})


def test_secrets_are_not_shown():
    found = Settings(embedder_key="hush", store="postgresql://me:hush@host/db?password=hush")
    assert "hush" not in repr(found.shown())
    assert found.shown()["store"] == "postgresql://me:***@host/db"
    assert without_password("postgresql://host/db") == "postgresql://host/db"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_is_recognized(host):
    assert Settings(host=host).is_loopback
    assert not Settings(host=f"{host}.example.org").is_loopback
