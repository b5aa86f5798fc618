"""Wrong parameters are refused before anything is made, with a sentence that says what to do."""

import pytest

import scenarios
from stack import World

WORLD = World.read()


def without(params, *names):
    return {k: v for k, v in params.items() if k not in names}


P = scenarios.PASSWORD

REFUSED = [
    # the webhook
    (without(P, "N8nWebhook"), "N8nWebhook is required"),
    (P | {"N8nWebhook": "https://n8n.example.com/webhook"}, "without https:// in front"),
    (P | {"N8nWebhook": "user:password@n8n.example.com/webhook"}, "without user name and password"),
    (P | {"N8nWebhook": "n8n.example.com:port/webhook"}, "N8nWebhook"),
    (P | {"N8nWebhook": ""}, "N8nWebhook"),
    (P | {"N8nProtocol": "ftp"}, "N8nProtocol"),
    # the secrets
    (without(P, "N8nTokenSecretArn"), "N8nTokenSecretArn is required"),
    (P | {"N8nTokenSecretArn": "n8n-token"}, "the full ARN"),
    (P | {"N8nTokenSecretArn": scenarios.SECRET + "*"}, "the full ARN"),
    (P | {"SecretsKmsKeyArn": "alias/mine"}, "not of an alias"),
    # the network
    (without(P, "VpcId"), "Give VpcId"),
    (without(P, "SubnetIds"), "Give SubnetIds"),
    (P | {"SubnetIds": "subnet-0123456789abcdef0, subnet-0123456789abcdef1"}, "without spaces"),
    (P | {"ExtraSecurityGroupIds": ",".join(["sg-0123456789abcdef0"] * 5)}, "up to four"),
    # the database
    (without(P, "DatabaseSecretArn"), "Give DatabaseSecretArn"),
    (without(P, "OperatorDatabaseSecretArn"), "Give OperatorDatabaseSecretArn"),
    (P | {"OperatorDatabaseSecretArn": P["DatabaseSecretArn"]}, "another secret"),
    (P | {"DatabaseIamAuth": "true"}, "leave DatabaseSecretArn"),
    (P | {"DatabaseResourceId": "db-ABCDEFGHIJKLMNOP"}, "for DatabaseIamAuth=true"),
    (without(scenarios.IAM, "PgUser"), "needs PgHost"),
    (without(scenarios.IAM, "DatabaseResourceId"), "needs PgHost"),
    (without(scenarios.IAM, "OperatorDatabaseUser"), "needs OperatorDatabaseUser"),
    (scenarios.IAM | {"OperatorDatabaseUser": "outbox_dispatcher"}, "another role"),
    (scenarios.IAM | {"DatabaseResourceId": "orders-db"}, "the resource id (not the name)"),
    (scenarios.IAM | {"PgUser": "*"}, "PgUser"),
    (P | {"OutboxTable": "outbox events"}, "table or schema.table"),
    (P | {"DatabaseProxy": "true"}, "for CreateDatabase=true"),
    (scenarios.NOTHING_YET | {"VpcId": P["VpcId"]}, "its own network"),
    (scenarios.NOTHING_YET | {"PgHost": "db.example.com"}, "its own host"),
    (scenarios.NOTHING_YET | {"PgPort": "6432"}, "its own host"),
    (scenarios.NOTHING_YET | {"DatabaseIamAuth": "true"}, "leave DatabaseIamAuth=false"),
    # the times
    (P | {"LeaseSeconds": "120"}, "LeaseSeconds must be 180 or more"),
    (P | {"FunctionTimeoutSeconds": "300"}, "LeaseSeconds must be 360 or more"),
    (P | {"FunctionTimeoutSeconds": "30"}, "HttpTimeoutSeconds must be 15 or less"),
    (P | {"HttpTimeoutSeconds": "100"}, "HttpTimeoutSeconds"),
    (P | {"LingerSeconds": "30", "FunctionTimeoutSeconds": "60"}, "FunctionTimeoutSeconds must be 120 or more"),
    # the rest
    (P | {"MaxBodyBytes": "16777216"}, "MaxBodyBytes"),
    (P | {"Concurrency": "0"}, "Concurrency"),
    (P | {"Workers": "6"}, "Workers"),
    (P | {"Workers": "2", "ReservedConcurrency": "1"}, "at least Workers"),
    (P | {"Workers": "5", "ReservedConcurrency": "4"}, "at least Workers"),
    (P | {"Workers": "4", "ReservedConcurrency": "3"}, "at least Workers"),
    (P | {"Workers": "3", "ReservedConcurrency": "2"}, "at least Workers"),
    (P | {"ScheduleMinutes": "5", "AlarmOldestDueSeconds": "300"}, "more than two ticks"),
    (P | {"ScheduleMinutes": "15"}, "more than two ticks"),
    (P | {"ScheduleMinutes": "15", "AlarmOldestDueSeconds": "1800"}, "more than two ticks"),
    (P | {"PruneDays": "1"}, "PruneDays"),
    (scenarios.NO_OPERATOR | {"PruneDays": "30"}, "CreateOperator=true"),
    (P | {"AlarmEmail": "nobody"}, "one e-mail address"),
    (P | {"RunbookUrl": "https://git.example.com/runbooks/"}, "without a slash at the end"),
]


@pytest.mark.parametrize("params, sentence", REFUSED, ids=[s for _, s in REFUSED])
def test_refuses(params, sentence):
    refusals = WORLD.deploy(params).main.refusals
    assert any(sentence in r for r in refusals), refusals


@pytest.mark.parametrize("params", [
    P | {"Workers": "5", "ReservedConcurrency": "5"},
    P | {"Workers": "5", "ReservedConcurrency": "12"},
    P | {"Workers": "1", "ReservedConcurrency": "1"},
    P | {"ScheduleMinutes": "15", "AlarmOldestDueSeconds": "3600"},
    P | {"HttpTimeoutSeconds": "10", "FunctionTimeoutSeconds": "30", "LeaseSeconds": "60"},
    P | {"OutboxTable": 'sales."Outbox Events"'},
    P | {"N8nWebhook": "n8n.example.com:8443/webhook/outbox?x=1"},
    P | {"DatabaseSecretArn": "arn:aws:secretsmanager:eu-central-1:123456789012:secret:rds!db-0f5d2a0e-6b2c-4f0e-9d53-1c1f2f7f4b10-AbCdEf"},
    P | {"N8nTokenSecretArn": "arn:aws-cn:secretsmanager:cn-north-1:123456789012:secret:team/n8n_token+x=1.2@y-AbCdEf"},
])
def test_lets_through(params):
    assert WORLD.deploy(params).main.refusals == []
