"""Parameters that people would give, each a whole answer to `sam deploy --guided`."""

SECRET = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:"

PASSWORD = {
    "N8nWebhook": "n8n.example.com/webhook/outbox",
    "N8nTokenSecretArn": SECRET + "n8n-token-AbCdEf",
    "VpcId": "vpc-0123456789abcdef0",
    "SubnetIds": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
    "DatabaseSecretArn": SECRET + "outbox-dispatcher-AbCdEf",
    "OperatorDatabaseSecretArn": SECRET + "outbox-operator-AbCdEf",
}

IAM = {k: v for k, v in PASSWORD.items() if not k.endswith("DatabaseSecretArn") and k != "DatabaseSecretArn"} | {
    "DatabaseIamAuth": "true",
    "DatabaseResourceId": "db-ABCDEFGHIJKLMNOP",
    "PgHost": "orders.abc.eu-central-1.rds.amazonaws.com",
    "PgDatabase": "orders",
    "PgUser": "outbox_dispatcher",
    "OperatorDatabaseUser": "outbox_operator",
}

NOTHING_YET = {"CreateDatabase": "true"} | {k: PASSWORD[k] for k in ("N8nWebhook", "N8nTokenSecretArn")}

HTTP_IN_THE_VPC = PASSWORD | {"N8nProtocol": "http", "N8nWebhook": "n8n.internal:5678/webhook/outbox"}

EVERYTHING = PASSWORD | {
    "ExtraSecurityGroupIds": "sg-0123456789abcdef2,sg-0123456789abcdef3",
    "DatabaseSecurityGroupId": "sg-0123456789abcdef4",
    "SecretsKmsKeyArn": "arn:aws:kms:eu-central-1:123456789012:key/0f5d2a0e-6b2c-4f0e-9d53-1c1f2f7f4b10",
    "Workers": "5",
    "ReservedConcurrency": "6",
    "ScheduleMinutes": "2",
    "PruneDays": "30",
    "Architecture": "x86_64",
    "AlarmEmail": "on-call@example.com",
    "RunbookUrl": "https://git.example.com/outbox/infra/runbooks",
}

NO_OPERATOR = {k: v for k, v in PASSWORD.items() if k != "OperatorDatabaseSecretArn"} | {"CreateOperator": "false"}

NOTHING_YET_GROWN_UP = NOTHING_YET | {
    "DatabaseHighAvailability": "true",
    "DatabaseProxy": "true",
    "DatabaseSecretArn": PASSWORD["DatabaseSecretArn"],
    "OperatorDatabaseSecretArn": PASSWORD["OperatorDatabaseSecretArn"],
    "SecretsKmsKeyArn": EVERYTHING["SecretsKmsKeyArn"],
}

SWITCHED_OFF = PASSWORD | {"ScheduleEnabled": "false"}

ALL = {
    "password": PASSWORD,
    "IAM authentication": IAM,
    "nothing yet": NOTHING_YET,
    "nothing yet, grown up": NOTHING_YET_GROWN_UP,
    "http in the VPC": HTTP_IN_THE_VPC,
    "everything": EVERYTHING,
    "no operator": NO_OPERATOR,
    "switched off": SWITCHED_OFF,
}
