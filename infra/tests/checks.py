"""What must hold of the templates. A check returns what is wrong, as sentences; test_checks.py runs them on the files as
they are (nothing must be wrong) and on spoiled copies (something must be).
"""

from __future__ import annotations

import json
import re
from itertools import product

from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

import scenarios
from stack import REGION, Deployment, World

FUNCTIONS = ("DispatcherFunction", "OperatorFunction")
ALARM, QUERY, SCHEDULE = "AWS::CloudWatch::Alarm", "AWS::Logs::QueryDefinition", "AWS::Scheduler::Schedule"

# Every setting that the template must give, with what it is by default in the scenario "password".
SETTINGS = {
    "N8N_WEBHOOK_URL": "https://n8n.example.com/webhook/outbox",
    "N8N_ALLOW_HTTP": "false",
    "N8N_TOKEN_SECRET_ID": scenarios.PASSWORD["N8nTokenSecretArn"],
    "N8N_TOKEN_SECRET_KEY": "token",
    "N8N_HTTP_TIMEOUT_SECONDS": "30",
    "N8N_DELIVERY_LEASE_SECONDS": "180",
    "N8N_MAX_BODY_BYTES": "15728640",
    "N8N_MAX_ATTEMPTS": "100",
    "N8N_BACKOFF_CAP_SECONDS": "60",
    "N8N_DISPATCH_ENABLED": "true",
    "DISPATCH_CLAIM_LIMIT": "500",
    "DISPATCH_RECLAIM_LIMIT": "500",
    "DISPATCH_CLAIM_BYTES": "33554432",
    "DISPATCH_CONCURRENCY": "10",
    "DISPATCH_MAX_CYCLES": "1",
    "DISPATCH_LINGER_SECONDS": "0",
    "DISPATCH_MAX_LOST_LEASES": "5",
    "OUTBOX_TABLE": "outbox_events",
    "DATABASE_SECRET_ID": scenarios.PASSWORD["DatabaseSecretArn"],
    "DATABASE_IAM_AUTH": "false",
    "PGPORT": "5432",
    "METRICS_STACK": "orders",
    "AWS_XRAY_CONTEXT_MISSING": "IGNORE_ERROR",
}
# Secret values and local ones: never set in AWS.
NEVER_SET = {"DATABASE_URL", "N8N_WEBHOOK_TRIGGER_TOKEN", "PGPASSWORD"}
# Set only where they are given.
OPTIONAL = {"PGHOST", "PGDATABASE", "PGUSER"}
# Of the operator alone.
OPERATORS_OWN = {"DISPATCHER_SCHEDULE", "DISPATCHER_TIMEOUT_SECONDS"}

METRICS = {
    "Reclaimed", "Claimed", "Succeeded", "Retried", "Failed", "Released", "Lost", "Unrecorded", "LeaseLostFailed", "BacklogDue", "OldestDueAge",
    "Parked", "FailedTotal", "CycleDuration", "DeliveryDuration", "CommitToAck",
}


def deployments(world: World):
    for name, params in scenarios.ALL.items():
        yield name, world.deploy(params)


# ---------------------------------------------------------------------------------------------- parameters


def every_scenario_is_accepted(world: World) -> list[str]:
    return [f"{name}: {refusal}" for name, d in deployments(world) for stack in d.stacks for refusal in stack.refusals]


def every_parameter_is_described_bounded_grouped_and_used(world: World) -> list[str]:
    wrong = []
    grouped = [p for g in world.main["Metadata"]["AWS::CloudFormation::Interface"]["ParameterGroups"] for p in g["Parameters"]]
    wrong += [f"{n} is in {grouped.count(n)} groups" for n in world.main["Parameters"] if grouped.count(n) != 1]
    wrong += [f"{n} is in a group and no parameter" for n in set(grouped) - set(world.main["Parameters"])]
    for name, spec in world.main["Parameters"].items():
        if not {"AllowedValues", "AllowedPattern", "MaxLength", "MaxValue"} & spec.keys():
            wrong.append(f"{name} has no bounds")
        if "AllowedPattern" in spec and "ConstraintDescription" not in spec:
            wrong.append(f"{name} has a pattern and no sentence about it")
    for path, template in {"template.yaml": world.main, **world.nested}.items():
        # A rule that looks at a parameter does not make use of it.
        text = json.dumps({k: v for k, v in template.items() if k not in ("Parameters", "Rules", "Metadata")})
        for name, spec in template["Parameters"].items():
            if not spec.get("Description", "").strip():
                wrong.append(f"{path}: {name} is not described")
            if not re.search(r'"Ref": "%s"|\$\{%s\}' % (name, name), text):
                wrong.append(f"{path}: nothing uses {name}")
    return wrong


def lease_outlives_function_outlives_post(world: World) -> list[str]:
    """The rules let through exactly the sets of times that hold."""
    wrong, spec = [], world.main["Parameters"]
    stack = world.deploy(scenarios.PASSWORD).main
    for post, function, lease in product(*(spec[p]["AllowedValues"] for p in ("HttpTimeoutSeconds", "FunctionTimeoutSeconds", "LeaseSeconds"))):
        stack.params |= {"HttpTimeoutSeconds": post, "FunctionTimeoutSeconds": function, "LeaseSeconds": lease}
        stack.__dict__.pop("refusals", None)
        holds = int(lease) > int(function) >= int(post) + 15
        if holds == bool(stack.refusals):
            wrong.append(f"POST {post} s, function {function} s, lease {lease} s is {'refused' if holds else 'let through'}")
    for _, d in deployments(world):
        env = d.environment("DispatcherFunction")
        timeout = int(d.properties("DispatcherFunction")["Timeout"])
        if not int(env["N8N_DELIVERY_LEASE_SECONDS"]) > timeout >= int(env["N8N_HTTP_TIMEOUT_SECONDS"]) + 15:
            wrong.append(f"lease {env['N8N_DELIVERY_LEASE_SECONDS']}, function {timeout}, POST {env['N8N_HTTP_TIMEOUT_SECONDS']}")
    return wrong


# ---------------------------------------------------------------------------------------------- names


def physical_names(d: Deployment) -> set[tuple]:
    """What identifies a resource in the account and is not chosen by AWS, from the resource schemas of CloudFormation."""
    names = set()
    for stack in d.stacks:
        for resource in stack.resources.values():
            kind, properties = resource["Type"], resource["Properties"]
            schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema
            chosen_by_aws = set(schema.get("readOnlyProperties", []))
            identifier = tuple(p for p in schema["primaryIdentifier"] if p not in chosen_by_aws)
            # Names that are no identifier for CloudFormation and yet one for the service, or for the people who look.
            for paths in {identifier, *((f"/properties/{n}",) for n in ("Name", "GroupName", "QueueName", "TopicName"))}:
                value = tuple(str(properties.get(p.removeprefix("/properties/"))) for p in paths)
                if paths and "None" not in value:
                    names.add((kind, paths, value))
    return names


def two_stacks_fit_one_account(world: World) -> list[str]:
    wrong = []
    for scenario, params in scenarios.ALL.items():
        one, other = (physical_names(world.deploy(params, name)) for name in ("orders", "billing"))
        wrong += [f"{scenario}: both stacks have {kind} {path} {name}" for kind, path, name in one & other]
    for template in (world.main, *world.nested.values()):
        wrong += [f"the output {n} is exported, which is a name of the whole account" for n, o in template.get("Outputs", {}).items() if "Export" in o]
    if "ReservedConcurrentExecutions" in world.deploy(scenarios.PASSWORD).properties("DispatcherFunction"):
        wrong.append("concurrency is reserved without being asked for: an account with a limit of 10 refuses the stack")
    return wrong


# ---------------------------------------------------------------------------------------------- functions


def functions_run_as_said(world: World) -> list[str]:
    wrong = []
    for scenario, d in deployments(world):
        for name in FUNCTIONS:
            if name not in d.main.resources:
                continue
            f = d.properties(name)
            expected = {
                "Runtime": "provided.al2023", "Handler": "bootstrap", "Architectures": [d.main.params["Architecture"]],
                "TracingConfig": {"Mode": "Active"}, "MemorySize": "256",
            }
            wrong += [f"{scenario}: {name} has {k} {f.get(k)!r}" for k, v in expected.items() if str(f.get(k)) != str(v)]
            logging = f.get("LoggingConfig", {})
            if logging.get("LogFormat") != "JSON" or logging.get("ApplicationLogLevel") != "INFO" or logging.get("SystemLogLevel") != "INFO":
                wrong.append(f"{scenario}: {name} must log JSON from INFO on, or its metrics are dropped: {logging}")
            group = d.properties(name.replace("Function", "LogGroup"))
            if logging.get("LogGroup") != f"<orders/{name.replace('Function', 'LogGroup')}>":
                wrong.append(f"{scenario}: {name} has no log group of its own")
            if not int(group.get("RetentionInDays", 0)) > 0:
                wrong.append(f"{scenario}: the log group of {name} keeps its lines for ever")
            if "FunctionName" in f:
                wrong.append(f"{scenario}: {name} has a fixed name")
            if not 1 <= len(f["VpcConfig"]["SecurityGroupIds"]) <= 5 or not f["VpcConfig"]["SubnetIds"]:
                wrong.append(f"{scenario}: {name} has the network {f['VpcConfig']}")
        if ("OperatorFunction" in d.main.resources) != (d.main.params["CreateOperator"] == "true"):
            wrong.append(f"{scenario}: CreateOperator does not decide about the operator")
    for name in FUNCTIONS:
        metadata = world.main["Resources"][name]["Metadata"]
        if metadata["BuildMethod"] != "makefile" or metadata["ContextPath"] != {"Fn::Sub": "infra/make/${Architecture}"}:
            wrong.append(f"{name} is not built for its architecture")
    if world.main["Globals"]["Function"]["CodeUri"] != ".":
        wrong.append("CodeUri is not the whole tree: an edit in internal/ would not be seen")
    return wrong


def every_setting_is_given(world: World) -> list[str]:
    wrong = []
    env = world.deploy(scenarios.PASSWORD).environment("DispatcherFunction")
    wrong += [f"{n} is {env.get(n)!r} and not {v!r}" for n, v in SETTINGS.items() if env.get(n) != v]
    for scenario, d in deployments(world):
        for function in FUNCTIONS:
            if function in d.main.resources:
                env = d.environment(function)
                known = SETTINGS.keys() | OPTIONAL | (OPERATORS_OWN if function == "OperatorFunction" else set())
                wrong += [f"{scenario}: {function} gets {n}, which no list knows" for n in env.keys() - known]
                wrong += [f"{scenario}: {function} gets {n}" for n in env.keys() & NEVER_SET]
                wrong += [f"{scenario}: {function} does not get {n}" for n in SETTINGS.keys() - env.keys() - {"DATABASE_SECRET_ID"}]
    expected = {
        ("IAM authentication", "DispatcherFunction"): {"DATABASE_IAM_AUTH": "true", "PGUSER": "outbox_dispatcher", "PGHOST": scenarios.IAM["PgHost"], "PGDATABASE": "orders", "DATABASE_SECRET_ID": None},
        ("IAM authentication", "OperatorFunction"): {"DATABASE_IAM_AUTH": "true", "PGUSER": "outbox_operator", "DATABASE_SECRET_ID": None},
        ("http in the VPC", "DispatcherFunction"): {"N8N_WEBHOOK_URL": "http://n8n.internal:5678/webhook/outbox", "N8N_ALLOW_HTTP": "true"},
        ("nothing yet", "DispatcherFunction"): {"PGHOST": "<orders/Database.Outputs.Host>", "PGDATABASE": "<orders/Database.Outputs.Name>", "DATABASE_SECRET_ID": "<orders/Database.Outputs.SecretArn>"},
        ("nothing yet, grown up", "DispatcherFunction"): {"PGHOST": "<orders/Database.Outputs.Host>", "DATABASE_SECRET_ID": scenarios.PASSWORD["DatabaseSecretArn"]},
        ("password", "OperatorFunction"): {"DATABASE_SECRET_ID": scenarios.PASSWORD["OperatorDatabaseSecretArn"], "DISPATCHER_SCHEDULE": "<orders/Schedule1>", "DISPATCHER_TIMEOUT_SECONDS": "120"},
    }
    for (scenario, function), values in expected.items():
        env = world.deploy(scenarios.ALL[scenario]).environment(function)
        wrong += [f"{scenario}: {function} has {n}={env.get(n)!r} and not {v!r}" for n, v in values.items() if env.get(n) != v]
    return wrong


def environment_is_under_4_kb(world: World) -> list[str]:
    """Lambda's limit, with every text as long as its parameter may be."""
    longest = dict(scenarios.PASSWORD)
    for name, spec in world.main["Parameters"].items():
        if spec["Type"] == "Number":
            longest[name] = str(spec.get("MaxValue", 0))
        elif "MaxLength" in spec:
            longest[name] = "x" * spec["MaxLength"]
        elif "AllowedValues" in spec:
            longest[name] = max(map(str, spec["AllowedValues"]), key=len)
    longest |= {"CreateDatabase": "false", "CreateOperator": "true", "Workers": "1"}
    d = world.deploy(longest, name="s" * 128)
    sizes = {f: sum(len(k) + len(str(v)) for k, v in d.environment(f).items()) for f in FUNCTIONS}
    return [f"{f} may get an environment of {size} bytes" for f, size in sizes.items() if size > 4096 - 256]  # with some air


def invocations_are_not_retried(world: World) -> list[str]:
    wrong = []
    for scenario, d in deployments(world):
        configs = {c["FunctionName"]: c for _, c in d.all("AWS::Lambda::EventInvokeConfig")}
        for name in FUNCTIONS:
            if name in d.main.resources:
                config = configs.get(f"<orders/{name}>", {})
                if config.get("MaximumRetryAttempts") != 0 or config.get("MaximumEventAgeInSeconds") != 60:
                    wrong.append(f"{scenario}: {name} is tried again by Lambda: {config}")
        for name, schedule in d.all(SCHEDULE):
            if schedule["Target"].get("RetryPolicy") != {"MaximumRetryAttempts": 0, "MaximumEventAgeInSeconds": 60}:
                wrong.append(f"{scenario}: {name} is tried again by the schedule")
    return wrong


def schedules_are_as_asked(world: World) -> list[str]:
    wrong = []
    for workers, minutes, enabled in product("12345", ("1", "2", "5", "10", "15"), ("true", "false")):
        given = {"Workers": workers, "ScheduleMinutes": minutes, "ScheduleEnabled": enabled, "AlarmOldestDueSeconds": "3600", "PruneDays": "30"}
        d = world.deploy(scenarios.PASSWORD | given)
        schedules = dict(d.all(SCHEDULE))
        prune = schedules.pop("PruneSchedule", None)
        if prune is None or json.loads(prune["Target"]["Input"]) != {"action": "prune", "older_than_days": 30, "yes": True}:
            wrong.append(f"{given}: prune is {prune}")
        elif prune["Target"]["Arn"] != "<orders/OperatorFunction.Arn>":
            wrong.append(f"{given}: prune goes to {prune['Target']['Arn']}")
        if len(schedules) != int(workers):
            wrong.append(f"{given}: {len(schedules)} schedules")
        for name, s in {**schedules, "PruneSchedule": prune or {}}.items():
            if s.get("State") != ("ENABLED" if enabled == "true" else "DISABLED"):
                wrong.append(f"{given}: {name} is {s.get('State')}")
            if s.get("FlexibleTimeWindow") != {"Mode": "OFF"} or "Name" in s:
                wrong.append(f"{given}: {name} has a flexible time or a fixed name")
            if s.get("Target", {}).get("DeadLetterConfig") != {"Arn": "<orders/ScheduleDeadLetterQueue.Arn>"}:
                wrong.append(f"{given}: what {name} cannot invoke is forgotten")
        for name, s in schedules.items():
            if s["ScheduleExpression"] != ("rate(1 minute)" if minutes == "1" else f"rate({minutes} minutes)"):
                wrong.append(f"{given}: {name} has {s['ScheduleExpression']}")
            if not json.loads(s["Target"]["Input"])["source"].startswith("aws."):
                wrong.append(f"{given}: the dispatcher would take the input of {name} for one written by hand")
    if "PruneSchedule" in dict(world.deploy(scenarios.PASSWORD).all(SCHEDULE)):
        wrong.append("prune is scheduled without being asked for")
    return wrong


# ---------------------------------------------------------------------------------------------- permissions and network

# Actions for which AWS knows no resource, and the network interfaces, whose ids nobody knows before.
ANY_RESOURCE = {"xray:PutTraceSegments", "xray:PutTelemetryRecords", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets"}
ANY_INTERFACE = {"ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"}


def listed(value) -> list:
    return value if isinstance(value, list) else [value]


def statements(d: Deployment, role: str):
    properties = d.properties(role)
    documents = [p["PolicyDocument"] for p in properties.get("Policies", [])]
    for managed in properties.get("ManagedPolicyArns", []):
        if managed.startswith("<"):  # one of ours
            documents.append(d.properties(managed.split("/")[-1].rstrip(">"))["PolicyDocument"])
    for document in documents:
        yield from document["Statement"]


def allowed(d: Deployment, role: str) -> dict[str, set[str]]:
    """Resources by action."""
    grants: dict[str, set[str]] = {}
    for s in statements(d, role):
        if s["Effect"] == "Allow":
            for action in listed(s["Action"]):
                grants.setdefault(action, set()).update(listed(s["Resource"]))
    return grants


def permissions_are_exact(world: World) -> list[str]:
    wrong = []
    for scenario, d in deployments(world):
        for name, role in d.all("AWS::IAM::Role"):
            if any(not a.startswith("<") for a in role.get("ManagedPolicyArns", [])):
                wrong.append(f"{scenario}: {name} has a managed policy of AWS, which allows more")
            for action, resources in allowed(d, name).items():
                for resource in resources:
                    anywhere = action in ANY_RESOURCE and resource == "*"
                    interface = action in ANY_INTERFACE and resource == f"arn:aws:ec2:{REGION}:123456789012:*/*"
                    if not (anywhere or interface or re.fullmatch(r"<[^*]+>|arn:[^*?]+", resource)):
                        wrong.append(f"{scenario}: {name} may {action} on {resource}")
                if "*" in action or action == "logs:CreateLogGroup":
                    wrong.append(f"{scenario}: {name} may {action}")
            deny = [s for s in statements(d, name) if s["Effect"] == "Deny"]
            if name in ("DispatcherRole", "OperatorRole") and not any(ANY_INTERFACE <= set(listed(s["Action"])) and "Condition" in s for s in deny):
                wrong.append(f"{scenario}: the code of {name} may touch network interfaces")

    token, database, operators = (scenarios.PASSWORD[k] for k in ("N8nTokenSecretArn", "DatabaseSecretArn", "OperatorDatabaseSecretArn"))
    user = f"arn:aws:rds-db:{REGION}:123456789012:dbuser:db-ABCDEFGHIJKLMNOP/"
    read, login, decrypt = "secretsmanager:GetSecretValue", "rds-db:connect", "kms:Decrypt"
    for scenario, role, action, expected in [
        ("password", "DispatcherRole", read, {token, database}),
        ("password", "OperatorRole", read, {token, operators}),
        ("password", "DispatcherRole", login, set()),
        ("password", "DispatcherRole", decrypt, set()),
        ("everything", "DispatcherRole", decrypt, {scenarios.EVERYTHING["SecretsKmsKeyArn"]}),
        ("everything", "OperatorRole", decrypt, {scenarios.EVERYTHING["SecretsKmsKeyArn"]}),
        ("IAM authentication", "DispatcherRole", read, {token}),
        ("IAM authentication", "DispatcherRole", login, {user + "outbox_dispatcher"}),
        ("IAM authentication", "OperatorRole", login, {user + "outbox_operator"}),
        ("nothing yet", "DispatcherRole", read, {token, "<orders/Database.Outputs.SecretArn>"}),
        ("nothing yet, grown up", "DispatcherRole", read, {token, database}),
        ("nothing yet, grown up", "ProxyRole", read, {"<orders-Database-1A2B3C/Instance.MasterUserSecret.SecretArn>", database, operators}),
        ("password", "OperatorRole", "scheduler:GetSchedule", {"<orders/Schedule1.Arn>"}),
        ("password", "ScheduleRole", "lambda:InvokeFunction", {"<orders/DispatcherFunction.Arn>"}),
        ("everything", "PruneRole", "lambda:InvokeFunction", {"<orders/OperatorFunction.Arn>"}),
        ("password", "DispatcherRole", "logs:PutLogEvents", {"<orders/DispatcherLogGroup.Arn>"}),
    ]:
        got = allowed(world.deploy(scenarios.ALL[scenario]), role).get(action, set())
        if got != expected:
            wrong.append(f"{scenario}: {role} may {action} on {sorted(got)} and not {sorted(expected)}")
    return wrong


def network_lets_out_only_what_is_needed(world: World) -> list[str]:
    def ports(params: dict) -> list[tuple[int, str]]:
        group = world.deploy(params).properties("FunctionSecurityGroup")
        if "SecurityGroupIngress" in group:
            wrong.append("something is let in")
        if any(r["IpProtocol"] != "tcp" or str(r["FromPort"]) != str(r["ToPort"]) for r in group["SecurityGroupEgress"]):
            wrong.append("a range of ports is let out")
        return sorted((int(r["FromPort"]), r.get("CidrIp", r.get("DestinationSecurityGroupId"))) for r in group["SecurityGroupEgress"])

    wrong: list[str] = []
    anywhere = "0.0.0.0/0"
    https, http = (scenarios.PASSWORD | {"N8nProtocol": p} for p in ("https", "http"))
    for params, expected in [
        (scenarios.PASSWORD, [(443, anywhere), (5432, anywhere)]),
        (https | {"N8nWebhook": "n8n.example.com:8443/webhook/a:b"}, [(443, anywhere), (5432, anywhere), (8443, anywhere)]),
        (https | {"N8nWebhook": "n8n.example.com:443"}, [(443, anywhere), (5432, anywhere)]),
        (http | {"N8nWebhook": "n8n.internal:5678/webhook/outbox"}, [(443, anywhere), (5432, anywhere), (5678, anywhere)]),
        (http | {"N8nWebhook": "n8n.internal/webhook/outbox"}, [(80, anywhere), (443, anywhere), (5432, anywhere)]),
        (http | {"N8nWebhook": "n8n.internal:443/webhook/outbox"}, [(443, anywhere), (5432, anywhere)]),
        (scenarios.EVERYTHING | {"PgPort": "6432"}, [(443, anywhere), (6432, "sg-0123456789abcdef4")]),
        (scenarios.NOTHING_YET, [(443, anywhere), (5432, "<orders/Database.Outputs.SecurityGroupId>")]),
    ]:
        if (got := ports(params)) != expected:
            wrong.append(f"{params.get('N8nProtocol')} {params['N8nWebhook']} opens {got} and not {expected}")
    for params, there in [(scenarios.PASSWORD, False), (scenarios.EVERYTHING, True), (scenarios.NOTHING_YET, True)]:
        if ("DatabaseIngress" in world.deploy(params).main.resources) != there:
            wrong.append("the database's group lets in the wrong ones")
    instance = world.deploy(scenarios.NOTHING_YET).properties("Instance")
    if instance["PubliclyAccessible"] or not instance["StorageEncrypted"] or not instance["ManageMasterUserPassword"]:
        wrong.append("the database is open to the world, not encrypted, or has a password of ours")
    if world.nested["infra/database.yaml"]["Resources"]["Instance"].get("DeletionPolicy") != "Snapshot":
        wrong.append("the events go with the stack")
    return wrong


# ---------------------------------------------------------------------------------------------- alarms, dashboard, runbooks

NO_ALARM = {"cut-over"}  # runbooks of another kind


def every_alarm_has_a_runbook_and_every_runbook_an_alarm(world: World) -> list[str]:
    alarms = {name for name, _ in world.deploy(scenarios.EVERYTHING).all(ALARM)}
    wrong = [f"the alarm {a} has no runbook" for a in alarms - world.runbooks.keys()]
    wrong += [f"the runbook {r} has no alarm" for r in world.runbooks.keys() - alarms - NO_ALARM]
    wrong += [f"the runbook {r} is missing" for r in NO_ALARM - world.runbooks.keys()]
    for name in alarms & world.runbooks.keys():
        text = world.runbooks[name]
        headings = re.findall(r"^#+ (.*)$", text, re.M)
        if headings != [name, "Meaning", "Look", "Mend"]:
            wrong.append(f"the runbook {name} has the headings {headings}")
        elif not re.search(r"^(go run \./functions/operator |aws lambda invoke .*--payload )", text.split("\n## Mend")[1], re.M):
            wrong.append(f"the runbook {name} does not end in a command")
    return wrong


def every_alarm_tells_what_to_do(world: World) -> list[str]:
    wrong = []
    for scenario, base in [("with links", "https://git.example.com/outbox/infra/runbooks"), ("without", "infra/runbooks")]:
        params = scenarios.EVERYTHING | ({} if scenario == "with links" else {"RunbookUrl": ""})
        d = world.deploy(params)
        for name, alarm in d.all(ALARM):
            text = alarm["AlarmDescription"]
            if f"{base}/{name}.md" not in text:
                wrong.append(f"{name} does not name its runbook")
            if f"https://{REGION}.console.aws.amazon.com/cloudwatch/home?region={REGION}#dashboards/dashboard/orders-{REGION}" not in text:
                wrong.append(f"{name} does not lead to the dashboard")
            if alarm["AlarmName"] != f"orders-{name}":
                wrong.append(f"{name} is called {alarm['AlarmName']}")
            if alarm.get("AlarmActions") != ["<orders-Observability-1A2B3C/Topic>"] or alarm.get("OKActions") != alarm.get("AlarmActions"):
                wrong.append(f"{name} tells nobody")
            if "TreatMissingData" not in alarm:
                wrong.append(f"{name} does not say what missing data means")
    # With the longest name and address there may be.
    for name, alarm in world.deploy(scenarios.PASSWORD | {"RunbookUrl": "https://" + "x" * 112}, name="s" * 128).all(ALARM):
        if len(alarm["AlarmDescription"]) > 1024 or len(alarm["AlarmName"]) > 255:
            wrong.append(f"{name} is described at a length of {len(alarm['AlarmDescription'])}")
    return wrong


def metrics_of(alarm: dict):
    """(namespace, name, dimensions, period) of everything that an alarm looks at."""
    if "MetricName" in alarm:
        yield alarm["Namespace"], alarm["MetricName"], alarm["Dimensions"], alarm["Period"]
    for metric in alarm.get("Metrics", []):
        if "MetricStat" in metric:
            m = metric["MetricStat"]
            yield m["Metric"]["Namespace"], m["Metric"]["MetricName"], m["Metric"]["Dimensions"], m["Period"]


def alarms_look_at_metrics_that_exist(world: World) -> list[str]:
    wrong = []
    for minutes, workers in [("1", "1"), ("5", "3"), ("15", "1")]:
        given = {"ScheduleMinutes": minutes, "Workers": workers, "AlarmOldestDueSeconds": "3600"}
        for name, alarm in world.deploy(scenarios.PASSWORD | given).all(ALARM):
            for namespace, metric, dimensions, period in metrics_of(alarm):
                if namespace == "OutboxDispatcher" and (metric not in METRICS or dimensions != [{"Name": "Stack", "Value": "orders"}]):
                    wrong.append(f"{name} looks at {metric} {dimensions}")
                if namespace == "AWS/Lambda" and dimensions != [{"Name": "FunctionName", "Value": "<orders/DispatcherFunction>"}]:
                    wrong.append(f"{name} looks at {dimensions}")
                if name != "ScheduleDeadLetters" and period % (60 * int(minutes)):
                    wrong.append(f"{name} has a period of {period} s at a tick of {minutes} minutes")
                if period * alarm["EvaluationPeriods"] > 86400:
                    wrong.append(f"{name} looks back for more than a day, which CloudWatch refuses")
            ids = {m["Id"] for m in alarm.get("Metrics", [])}
            for metric in alarm.get("Metrics", []):
                wrong += [f"{name}: {word} is no metric" for word in re.findall(r"\b[a-z]\w*", metric.get("Expression", "")) if word not in ids]
            if alarm.get("Metrics") and [m["Id"] for m in alarm["Metrics"] if m.get("ReturnData", True)] != [alarm["Metrics"][0]["Id"]]:
                wrong.append(f"{name} has not one result")
    on, off = (dict(world.deploy(p).all(ALARM)) for p in (scenarios.PASSWORD, scenarios.SWITCHED_OFF))
    if "NoInvocation" in off:
        wrong.append("NoInvocation rings while the schedule is switched off")
    if set(on) - set(off) != {"NoInvocation"}:
        wrong.append("the switch takes other alarms away as well")
    if on.get("NoInvocation", {}).get("TreatMissingData") != "breaching":
        wrong.append("NoInvocation does not see that there is nothing")
    # A dead n8n is asked three times a tick; the share must be told from that many attempts.
    least = re.search(r">= (\d+)", on["DeliveriesFailing"]["Metrics"][0]["Expression"])
    if not least or int(least[1]) > 15:
        wrong.append("DeliveriesFailing cannot see a dead n8n: three attempts a tick are 15 in five ticks")
    return wrong


def queries_are_those_of_the_runbooks(world: World) -> list[str]:
    wrong = []
    d = world.deploy(scenarios.EVERYTHING)
    saved = {q["Name"].removeprefix("orders/"): q for _, q in d.all(QUERY)}
    written = {n: re.findall(r"^```text\n(.*?)\n```$", t, re.M | re.S) for n, t in world.runbooks.items()}
    for name, query in saved.items():
        if query["LogGroupNames"] != ["<orders/DispatcherLogGroup>"]:
            wrong.append(f"the query {name} looks at {query['LogGroupNames']}")
        if query["QueryString"] not in written.get(name, []):
            wrong.append(f"the saved query {name} is not the one of the runbook")
    for name, queries in written.items():
        if name not in NO_ALARM and len(queries) != (name in saved):
            wrong.append(f"the runbook {name} has {len(queries)} queries")
    return wrong


def dashboard_is_whole(world: World) -> list[str]:
    wrong = []
    for scenario, d in deployments(world):
        dashboard = d.properties("Dashboard")
        try:
            body = json.loads(dashboard["DashboardBody"])
        except json.JSONDecodeError as e:
            return [f"{scenario}: the dashboard is no JSON: {e}"]
        if d.main.outputs["DashboardUrl"].rsplit("/", 1)[1] != dashboard["DashboardName"]:
            wrong.append(f"{scenario}: the address leads to another dashboard")
        cells = [(x, y) for w in body["widgets"] for x in range(w["x"], w["x"] + w["width"]) for y in range(w["y"], w["y"] + w["height"])]
        if len(cells) != len(set(cells)) or max(x for x, _ in cells) > 23:
            wrong.append(f"{scenario}: widgets lie over one another")
        shown = {a.split("/")[-1].split(".")[0] for w in body["widgets"] if w["type"] == "alarm" for a in w["properties"]["alarms"]}
        if shown != {n for n, _ in d.all(ALARM)}:
            wrong.append(f"{scenario}: the dashboard shows the alarms {sorted(shown)}")
        text = " ".join(w["properties"]["markdown"] for w in body["widgets"] if w["type"] == "text")
        wrong += [f"{scenario}: the dashboard does not name the runbook {n}" for n in world.runbooks if f"{n}.md" not in text]
        wrong += [f"{scenario}: {w['properties']['title']}: no widget to be read by code and type" for w in body["widgets"] if w["type"] == "log" and "'<orders/DispatcherLogGroup>'" not in w["properties"]["query"]]
        for widget in body["widgets"]:
            if widget["type"] == "metric":
                row: list = []
                for metric in widget["properties"]["metrics"]:
                    texts = [m for m in metric if isinstance(m, str)]
                    row = row if texts == ["..."] else [row[i] if t == "." else t for i, t in enumerate(texts)]
                    if row[0] == "OutboxDispatcher" and (row[1] not in METRICS or row[2:] != ["Stack", "orders"]):
                        wrong.append(f"{scenario}: {widget['properties']['title']} shows {row}")
        titles = [w["properties"].get("title") for w in body["widgets"]]
        for name, alarm in d.all(ALARM):
            wrong += [f"{scenario}: {name} names the widget {t}, which is not there" for t in re.findall(r'"([^"]+)"', alarm["AlarmDescription"]) if t not in titles]
    return wrong


ALL = [
    every_scenario_is_accepted,
    every_parameter_is_described_bounded_grouped_and_used,
    lease_outlives_function_outlives_post,
    two_stacks_fit_one_account,
    functions_run_as_said,
    every_setting_is_given,
    environment_is_under_4_kb,
    invocations_are_not_retried,
    schedules_are_as_asked,
    permissions_are_exact,
    network_lets_out_only_what_is_needed,
    every_alarm_has_a_runbook_and_every_runbook_an_alarm,
    every_alarm_tells_what_to_do,
    alarms_look_at_metrics_that_exist,
    queries_are_those_of_the_runbooks,
    dashboard_is_whole,
]
