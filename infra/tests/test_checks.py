"""Every check holds of the files as they are, and finds the fault in a copy that was spoiled for it."""

import pytest

import checks
from stack import World

WORLD = World.read()


@pytest.mark.parametrize("check", checks.ALL, ids=lambda c: c.__name__)
def test_holds(check):
    assert check(WORLD) == []


def ref(name):
    return {"Ref": name}


def add_parameter(w):
    w.main["Parameters"]["Spare"] = {"Type": "String", "Default": "", "MaxLength": 3, "Description": "Nobody asks for it."}
    w.main["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"][0]["Parameters"].append("Spare")


def ungroup(w):
    w.main["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"][0]["Parameters"].remove("N8nTokenSecretArn")


def widen_subnets(w):
    w.main["Parameters"]["SubnetIds"]["MaxLength"] = 10


def env(w):
    return w.main["Globals"]["Function"]["Environment"]["Variables"]


def policies(w, role, index):
    return w.resource(role)["Policies"][index]["PolicyDocument"]["Statement"]


def runbook(name, old, new):
    def spoil(w):
        assert old in w.runbooks[name]
        w.runbooks[name] = w.runbooks[name].replace(old, new)

    return spoil


def body(old, new):
    def spoil(w):
        properties = w.resource("Dashboard")
        text = properties["DashboardBody"]["Fn::Sub"][0]
        assert old in text
        properties["DashboardBody"]["Fn::Sub"][0] = text.replace(old, new, 1)

    return spoil


def put(resource, key, value):
    return lambda w: w.resource(resource).__setitem__(key, value)


def take(resource, key):
    return lambda w: w.resource(resource).pop(key)


SPOILED = [
    # parameters
    (checks.every_scenario_is_accepted, "a pattern that refuses what is right", widen_subnets),
    (checks.every_scenario_is_accepted, "a nested stack gets a parameter it does not know", lambda w: w.resource("Observability")["Parameters"].__setitem__("Colour", "red")),
    (checks.every_scenario_is_accepted, "a nested stack misses a parameter", lambda w: w.resource("Observability")["Parameters"].pop("LogGroupName")),
    (checks.every_parameter_is_described_bounded_grouped_and_used, "a parameter that nothing uses", add_parameter),
    (checks.every_parameter_is_described_bounded_grouped_and_used, "a setting that is fixed by mistake", lambda w: env(w).__setitem__("N8N_MAX_ATTEMPTS", "100")),
    (checks.every_parameter_is_described_bounded_grouped_and_used, "no description", lambda w: w.main["Parameters"]["PgHost"].pop("Description")),
    (checks.every_parameter_is_described_bounded_grouped_and_used, "no bounds", lambda w: w.main["Parameters"]["N8nTokenSecretKey"].pop("MaxLength")),
    (checks.every_parameter_is_described_bounded_grouped_and_used, "a pattern without a sentence", lambda w: w.main["Parameters"]["VpcId"].pop("ConstraintDescription")),
    (checks.every_parameter_is_described_bounded_grouped_and_used, "a parameter in no group", ungroup),
    (checks.lease_outlives_function_outlives_post, "a rule taken away", lambda w: w.main["Rules"]["LeaseOutlivesFunction"]["Assertions"].pop(1)),
    (checks.lease_outlives_function_outlives_post, "the other rule taken away", lambda w: w.main["Rules"].pop("FunctionOutlivesPost")),
    (checks.lease_outlives_function_outlives_post, "a lease offered that no rule knows", lambda w: w.main["Parameters"]["LeaseSeconds"]["AllowedValues"].append("30")),
    (checks.lease_outlives_function_outlives_post, "lease and timeout mixed up", lambda w: env(w).__setitem__("N8N_DELIVERY_LEASE_SECONDS", ref("HttpTimeoutSeconds"))),
    # names
    (checks.two_stacks_fit_one_account, "a fixed function name", put("DispatcherFunction", "FunctionName", "outbox-dispatcher")),
    (checks.two_stacks_fit_one_account, "a fixed log group", put("DispatcherLogGroup", "LogGroupName", "/aws/lambda/dispatcher")),
    (checks.two_stacks_fit_one_account, "a fixed schedule name", put("Schedule1", "Name", "every-minute")),
    (checks.two_stacks_fit_one_account, "a fixed role name", put("DispatcherRole", "RoleName", "dispatcher")),
    (checks.two_stacks_fit_one_account, "a fixed alarm name", put("Errors", "AlarmName", "Errors")),
    (checks.two_stacks_fit_one_account, "a fixed dashboard", put("Dashboard", "DashboardName", "outbox")),
    (checks.two_stacks_fit_one_account, "a fixed query name", put("ErrorsQuery", "Name", "Errors")),
    (checks.two_stacks_fit_one_account, "a fixed queue name", put("ScheduleDeadLetterQueue", "QueueName", "dead")),
    (checks.two_stacks_fit_one_account, "a fixed proxy name", put("DatabaseProxy", "DBProxyName", "outbox")),
    (checks.two_stacks_fit_one_account, "a fixed group name", put("FunctionSecurityGroup", "GroupName", "outbox")),
    (checks.two_stacks_fit_one_account, "an export", lambda w: w.nested["infra/database.yaml"]["Outputs"]["VpcId"].__setitem__("Export", {"Name": "vpc"})),
    (checks.two_stacks_fit_one_account, "concurrency reserved unasked", put("DispatcherFunction", "ReservedConcurrentExecutions", 1)),
    # functions
    (checks.functions_run_as_said, "log level WARN", lambda w: w.resource("DispatcherFunction")["LoggingConfig"].__setitem__("ApplicationLogLevel", "WARN")),
    (checks.functions_run_as_said, "text logs", lambda w: w.resource("DispatcherFunction")["LoggingConfig"].__setitem__("LogFormat", "Text")),
    (checks.functions_run_as_said, "no retention", take("DispatcherLogGroup", "RetentionInDays")),
    (checks.functions_run_as_said, "no log group of its own", lambda w: w.resource("DispatcherFunction")["LoggingConfig"].pop("LogGroup")),
    (checks.functions_run_as_said, "no tracing", lambda w: w.main["Globals"]["Function"].pop("Tracing")),
    (checks.functions_run_as_said, "always arm64", lambda w: w.main["Globals"]["Function"].__setitem__("Architectures", ["arm64"])),
    (checks.functions_run_as_said, "built for one architecture", lambda w: w.main["Resources"]["DispatcherFunction"]["Metadata"].pop("ContextPath") and w.main["Resources"]["DispatcherFunction"]["Metadata"].__setitem__("ContextPath", ".")),
    (checks.functions_run_as_said, "only its folder is built", lambda w: w.main["Globals"]["Function"].__setitem__("CodeUri", "functions/dispatcher")),
    (checks.functions_run_as_said, "an operator that cannot be left out", lambda w: w.main["Conditions"].__setitem__("MakesOperator", {"Fn::Equals": ["a", "a"]})),
    (checks.every_setting_is_given, "a setting left out", lambda w: env(w).pop("DISPATCH_CLAIM_BYTES")),
    (checks.every_setting_is_given, "two settings mixed up", lambda w: env(w).__setitem__("DISPATCH_RECLAIM_LIMIT", ref("Concurrency"))),
    (checks.every_setting_is_given, "a default changed in the template alone", lambda w: w.main["Parameters"]["MaxAttempts"].__setitem__("Default", 5)),
    (checks.every_setting_is_given, "a token in the environment", lambda w: env(w).__setitem__("N8N_WEBHOOK_TRIGGER_TOKEN", "x")),
    (checks.every_setting_is_given, "a setting nobody knows", lambda w: env(w).__setitem__("DEBUG", "1")),
    (checks.every_setting_is_given, "the operator logs in as the dispatcher", lambda w: w.resource("OperatorFunction")["Environment"]["Variables"].__setitem__("DATABASE_SECRET_ID", ref("DatabaseSecretArn"))),
    (checks.every_setting_is_given, "http without saying so", lambda w: env(w).__setitem__("N8N_ALLOW_HTTP", "false")),
    (checks.environment_is_under_4_kb, "a long parameter", lambda w: w.main["Parameters"]["N8nWebhook"].__setitem__("MaxLength", 2048)),
    (checks.invocations_are_not_retried, "two retries by Lambda", lambda w: w.main["Globals"]["Function"].pop("EventInvokeConfig")),
    (checks.invocations_are_not_retried, "retries by the schedule", lambda w: w.resource("Schedule3").__setitem__("Target", {**w.resource("Schedule3")["Target"], "RetryPolicy": {"MaximumRetryAttempts": 3}})),
    (checks.schedules_are_as_asked, "a worker without a switch", lambda w: w.main["Resources"]["Schedule4"].pop("Condition")),
    (checks.schedules_are_as_asked, "always on", put("Schedule1", "State", "ENABLED")),
    (checks.schedules_are_as_asked, "a flexible time", put("Schedule2", "FlexibleTimeWindow", {"Mode": "FLEXIBLE", "MaximumWindowInMinutes": 5})),
    (checks.schedules_are_as_asked, "no dead letters", lambda w: w.resource("Schedule1").__setitem__("Target", {k: v for k, v in w.resource("Schedule1")["Target"].items() if k != "DeadLetterConfig"})),
    (checks.schedules_are_as_asked, "an input that is refused", lambda w: w.resource("Schedule1").__setitem__("Target", {**w.resource("Schedule1")["Target"], "Input": '{"source":"me"}'})),
    (checks.schedules_are_as_asked, "a wrong rate", put("Schedule1", "ScheduleExpression", "rate(1 minutes)")),
    (checks.schedules_are_as_asked, "prune goes to the dispatcher", lambda w: w.resource("PruneSchedule")["Target"].__setitem__("Arn", {"Fn::GetAtt": ["DispatcherFunction", "Arn"]})),
    # permissions and network
    (checks.permissions_are_exact, "every secret", lambda w: policies(w, "DispatcherRole", 1)[0].__setitem__("Resource", "*")),
    (checks.permissions_are_exact, "every secret of a name", lambda w: policies(w, "DispatcherRole", 1)[0].__setitem__("Resource", {"Fn::Sub": "arn:aws:secretsmanager:${AWS::Region}:${AWS::AccountId}:secret:*"})),
    (checks.permissions_are_exact, "the operator's secret", lambda w: policies(w, "DispatcherRole", 1)[0]["Resource"].append(ref("OperatorDatabaseSecretArn"))),
    (checks.permissions_are_exact, "every action", lambda w: policies(w, "DispatcherRole", 1)[0].__setitem__("Action", "secretsmanager:*")),
    (checks.permissions_are_exact, "log groups that come back", lambda w: policies(w, "DispatcherRole", 0)[0]["Action"].append("logs:CreateLogGroup")),
    (checks.permissions_are_exact, "AWS's policy", lambda w: w.resource("DispatcherRole")["ManagedPolicyArns"].append("arn:aws:iam::aws:policy/service-role/AWSLambdaVPCAccessExecutionRole")),
    (checks.permissions_are_exact, "every database user", lambda w: policies(w, "DispatcherRole", 1)[2]["Fn::If"][1].__setitem__("Resource", {"Fn::Sub": "arn:aws:rds-db:${AWS::Region}:${AWS::AccountId}:dbuser:*/${PgUser}"})),
    (checks.permissions_are_exact, "interfaces for the code", lambda w: w.resource("NetworkAndTracePolicy")["PolicyDocument"]["Statement"].pop()),
    (checks.permissions_are_exact, "every key", lambda w: policies(w, "OperatorRole", 1)[1]["Fn::If"][1].__setitem__("Resource", "*")),
    (checks.network_lets_out_only_what_is_needed, "everything out", lambda w: w.resource("FunctionSecurityGroup")["SecurityGroupEgress"].append({"IpProtocol": "-1", "FromPort": "-1", "ToPort": "-1", "CidrIp": "0.0.0.0/0"})),
    (checks.network_lets_out_only_what_is_needed, "something in", put("FunctionSecurityGroup", "SecurityGroupIngress", [])),
    (checks.network_lets_out_only_what_is_needed, "n8n's port not opened", lambda w: w.resource("FunctionSecurityGroup")["SecurityGroupEgress"].pop()),
    (checks.network_lets_out_only_what_is_needed, "the scheme forgotten", lambda w: w.main["Conditions"].__setitem__("PlainHttp", {"Fn::Equals": ["a", "b"]})),
    (checks.network_lets_out_only_what_is_needed, "Postgres on 5432 always", lambda w: [r["Fn::If"][1].update(FromPort=5432, ToPort=5432) for r in w.resource("FunctionSecurityGroup")["SecurityGroupEgress"][:1]]),
    (checks.network_lets_out_only_what_is_needed, "a public database", put("Instance", "PubliclyAccessible", True)),
    (checks.network_lets_out_only_what_is_needed, "a database without a snapshot", lambda w: w.nested["infra/database.yaml"]["Resources"]["Instance"].pop("DeletionPolicy")),
    # alarms, dashboard, runbooks
    (checks.every_alarm_has_a_runbook_and_every_runbook_an_alarm, "no runbook", lambda w: w.runbooks.pop("Throttles")),
    (checks.every_alarm_has_a_runbook_and_every_runbook_an_alarm, "no alarm", lambda w: w.nested["infra/observability.yaml"]["Resources"].pop("Throttles") and w.resource("Dashboard").__setitem__("DashboardBody", "{}")),
    (checks.every_alarm_has_a_runbook_and_every_runbook_an_alarm, "no mend", runbook("Errors", "## Mend", "## Hope")),
    (checks.every_alarm_has_a_runbook_and_every_runbook_an_alarm, "a mend without a command", runbook("Errors", "go run ./functions/operator doctor", "good luck")),
    (checks.every_alarm_tells_what_to_do, "no runbook named", lambda w: w.resource("FailedEvents").__setitem__("AlarmDescription", "Events failed.")),
    (checks.every_alarm_tells_what_to_do, "nobody told", put("FailedEvents", "AlarmActions", [])),
    (checks.every_alarm_tells_what_to_do, "missing data forgotten", take("Errors", "TreatMissingData")),
    (checks.every_alarm_tells_what_to_do, "too long", lambda w: w.resource("Errors")["AlarmDescription"].__setitem__("Fn::Sub", w.resource("Errors")["AlarmDescription"]["Fn::Sub"] + "!" * 500)),
    (checks.alarms_look_at_metrics_that_exist, "a metric that nobody writes", put("OldestDueAge", "MetricName", "OldestAge")),
    (checks.alarms_look_at_metrics_that_exist, "the nested stack's name as dimension", put("OldestDueAge", "Dimensions", [{"Name": "Stack", "Value": ref("AWS::StackName")}])),
    (checks.alarms_look_at_metrics_that_exist, "a fixed period", put("NoInvocation", "Period", 60)),
    (checks.alarms_look_at_metrics_that_exist, "silent when there is nothing", put("NoInvocation", "TreatMissingData", "notBreaching")),
    (checks.alarms_look_at_metrics_that_exist, "rings while switched off", lambda w: w.nested["infra/observability.yaml"]["Resources"]["NoInvocation"].pop("Condition")),
    (checks.alarms_look_at_metrics_that_exist, "blind to a dead n8n", lambda w: w.resource("DeliveriesFailing")["Metrics"][0].__setitem__("Expression", "IF(good + retried + failed >= 20, retried + failed, 0)")),
    (checks.alarms_look_at_metrics_that_exist, "a sum of what is not there", lambda w: w.resource("FailedEvents")["Metrics"][0].__setitem__("Expression", "failed + lots")),
    (checks.queries_are_those_of_the_runbooks, "another query in the runbook", runbook("FailedEvents", "by code, event_type", "by code")),
    (checks.queries_are_those_of_the_runbooks, "another log group", put("ErrorsQuery", "LogGroupNames", ["/aws/lambda/other"])),
    (checks.dashboard_is_whole, "no JSON", body('"start": "-PT3H",', '"start": "-PT3H"')),
    (checks.dashboard_is_whole, "a metric that nobody writes", body('"Parked"', '"Parking"')),
    (checks.dashboard_is_whole, "an alarm left out", body('"${Throttles.Arn}", ', "")),
    (checks.dashboard_is_whole, "a table renamed", body("Failed, by code and type", "Failures")),
    (checks.dashboard_is_whole, "widgets over one another", body('"x": 8, "y": 7', '"x": 7, "y": 7')),
    (checks.dashboard_is_whole, "a runbook left out", lambda w: w.runbooks.__setitem__("Surprise", "")),
]


@pytest.mark.parametrize("check, what, spoil", SPOILED, ids=[f"{c.__name__}: {w}" for c, w, _ in SPOILED])
def test_finds(check, what, spoil):
    spoiled = WORLD.copy()
    spoil(spoiled)
    assert check(spoiled), f"{check.__name__} does not see: {what}"


def test_every_check_was_seen_to_fail():
    assert {c for c, _, _ in SPOILED} == set(checks.ALL)
