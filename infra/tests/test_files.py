"""Events, local settings, samconfig.toml and the makefiles agree with the templates and with the program."""

import json
import re
import tomllib

import pytest

import checks
import scenarios
from stack import ROOT, World

WORLD = World.read()
EVENTS = {p.stem: json.loads(p.read_text()) for p in (ROOT / "infra/events").glob("*.json")}
DISPATCHERS = {n: e for n, e in EVENTS.items() if not n.startswith("operator-")}
OPERATORS = {n: e for n, e in EVENTS.items() if n.startswith("operator-")}
SETTINGS = json.loads((ROOT / "infra/tests/settings.json").read_text())  # of internal/config
ACTIONS = {"status", "list", "show", "replay", "cancel", "reclaim", "prune", "pause", "resume", "migrate", "doctor"}


def test_the_dispatcher_accepts_every_event():
    assert {"schedule", "empty", "dry-run", "drain", "small"} <= DISPATCHERS.keys()
    for name, event in DISPATCHERS.items():
        assert event.get("source", "").startswith("aws.") or event.keys() <= {"max_cycles", "claim_limit", "concurrency", "dry_run"}, name
    assert EVENTS["drain"] == {"max_cycles": 0} and EVENTS["empty"] == {} and EVENTS["dry-run"] == {"dry_run": True}


def test_the_scheduled_event_is_what_the_schedule_sends():
    target = WORLD.deploy(scenarios.PASSWORD).properties("Schedule1")["Target"]
    assert json.loads(target["Input"]).keys() == EVENTS["schedule"].keys()


def test_every_action_of_the_operator_has_an_event():
    assert {e["action"] for e in OPERATORS.values()} == ACTIONS
    prune = WORLD.deploy(scenarios.EVERYTHING).properties("PruneSchedule")["Target"]["Input"]
    assert json.loads(prune) == EVENTS["operator-prune"]


def test_local_settings_are_ones_that_sam_local_passes_on():
    """`sam local invoke --env-vars` passes only what the template names."""
    local = json.loads((ROOT / "infra/local/env.json").read_text())
    everywhere = WORLD.main["Globals"]["Function"]["Environment"]["Variables"].keys()
    for function, variables in local.items():
        assert variables.keys() <= everywhere | WORLD.resource(function)["Environment"]["Variables"].keys(), function
        assert not (variables["N8N_TOKEN_SECRET_ID"] or variables["DATABASE_SECRET_ID"]), "a laptop has no Secrets Manager"
    assert local.keys() == set(checks.FUNCTIONS)


def test_the_program_reads_what_the_template_sets():
    everywhere = WORLD.main["Globals"]["Function"]["Environment"]["Variables"]
    given = everywhere | WORLD.resource("DispatcherFunction")["Environment"]["Variables"]
    ours = {n for n in given if n.startswith(("N8N_", "DISPATCH_", "OUTBOX_", "DATABASE_", "METRICS_"))}
    assert ours == {s["name"] for s in SETTINGS} - {"LOG_LEVEL"}
    for setting in SETTINGS:
        if setting["parameter"]:
            assert given[setting["name"]] == {"Ref": setting["parameter"]}, setting["name"]


@pytest.mark.parametrize("setting", [s for s in SETTINGS if s["parameter"]], ids=lambda s: s["name"])
def test_the_template_has_the_defaults_and_bounds_of_the_program(setting):
    """Of a list every value is within the bounds."""
    parameter = WORLD.main["Parameters"][setting["parameter"]]
    assert str(parameter.get("Default", "")) == setting["default"]
    if parameter["Type"] == "Number":
        assert (parameter["MinValue"], parameter["MaxValue"]) == (setting["min"], setting["max"])
    elif setting["max"]:
        assert all(setting["min"] <= float(v) <= setting["max"] for v in parameter["AllowedValues"])


def test_the_memory_is_what_the_bounds_count_on():
    assert WORLD.main["Parameters"]["MemorySize"]["MinValue"] << 20 == 4 * next(s["max"] for s in SETTINGS if s["name"] == "DISPATCH_CLAIM_BYTES")


def test_the_program_writes_the_metrics_of_the_alarms():
    source = (ROOT / "internal/telemetry/metrics.go").read_text()
    assert set(re.findall(r'"([A-Z]\w+)", "(?:Count|Seconds|Milliseconds)"', source)) == checks.METRICS
    assert re.search(r'"Stack"', source) and re.search(r'Namespace = "OutboxDispatcher"', source)


@pytest.mark.parametrize("environment", ["default", "dev", "prod"])
def test_samconfig(environment):
    config = tomllib.loads((ROOT / "samconfig.toml").read_text())[environment]
    section = {command: values["parameters"] for command, values in config.items()}
    assert section["build"]["cached"] is False and section["build"]["build_in_source"] is True
    assert section["deploy"]["resolve_s3"] is True and section["deploy"]["capabilities"] == "CAPABILITY_IAM"
    given = dict(p.split("=", 1) for s in section.values() for p in s.get("parameter_overrides", []))
    assert WORLD.deploy(scenarios.PASSWORD | given).main.refusals == []
    assert re.fullmatch(r"outbox-dispatcher(-dev|-prod)?", section["global"]["stack_name"])


def test_a_nested_stack_needs_no_further_capability():
    for path, template in WORLD.nested.items():
        assert "Transform" not in template, f"{path}: a transform in a nested stack requires CAPABILITY_AUTO_EXPAND"


@pytest.mark.parametrize("architecture, goarch", [("arm64", "arm64"), ("x86_64", "amd64")])
def test_each_architecture_has_its_makefile(architecture, goarch):
    lines = (ROOT / "infra/make" / architecture / "Makefile").read_text().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [f"LAMBDA_GOARCH := {goarch}", "include Makefile"]
    assert architecture in WORLD.main["Parameters"]["Architecture"]["AllowedValues"]


def test_every_output_can_be_resolved_and_its_command_names_what_exists():
    for name, params in scenarios.ALL.items():
        outputs = WORLD.deploy(params).main.outputs
        assert outputs["DashboardUrl"].startswith("https://"), name
        for output, value in outputs.items():
            if output.endswith("Command") and "--payload" in value:
                payload = json.loads(re.search(r"--payload '(.*?)'", value)[1])
                operator = "OperatorFunction" in value
                assert payload.get("action") in ACTIONS if operator else payload.keys() <= {"dry_run", "max_cycles"}, f"{name}: {output}"


def test_nothing_is_left_to_do():
    for path in [ROOT / "template.yaml", ROOT / "samconfig.toml", *(p for p in (ROOT / "infra").rglob("*") if p.is_file() and p.suffix in {".yaml", ".json", ".md", ".sql", ".txt", ""})]:
        assert not re.search(r"\bTODO\b|\bFIXME\b", path.read_text(errors="ignore")), path
