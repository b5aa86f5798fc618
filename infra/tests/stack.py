"""The templates as CloudFormation would see them, without CloudFormation.

World holds the files (a test may spoil a copy of it), Stack is one template with parameters: its conditions, its rules
and its resources with every function resolved as far as it can be before anything exists. What only AWS knows is a text
in angle brackets: <stack/Resource>, <stack/Resource.Arn>.
"""

from __future__ import annotations

import copy
import logging
import os
import re
import uuid
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-central-1")  # the translator wants one

from samtranslator.translator.transform import transform  # noqa: E402
from samtranslator.yaml_helper import yaml_parse  # noqa: E402

logging.getLogger("samtranslator.metrics").setLevel(logging.ERROR)  # it wants to publish some

ROOT = Path(__file__).parents[2]
NOTHING = object()  # AWS::NoValue
ACCOUNT, REGION = "123456789012", "eu-central-1"


class NoManagedPolicies:
    """Keeps the translator off the network: it would ask IAM for the names of all managed policies."""

    def load(self):
        return {}


@dataclass
class World:
    """The files under test."""

    main: dict
    nested: dict[str, dict]  # by TemplateURL
    runbooks: dict[str, str]  # by name, without .md

    @classmethod
    def read(cls) -> World:
        return cls(
            main=yaml_parse((ROOT / "template.yaml").read_text()),
            nested={f"infra/{p.name}": yaml_parse(p.read_text()) for p in sorted((ROOT / "infra").glob("*.yaml"))},
            runbooks={p.stem: p.read_text() for p in sorted((ROOT / "infra/runbooks").glob("*.md"))},
        )

    def copy(self) -> World:
        return World(copy.deepcopy(self.main), copy.deepcopy(self.nested), dict(self.runbooks))

    def resource(self, name: str) -> dict:
        """Properties of a resource, in whichever template it is, to be spoiled."""
        for template in (self.main, *self.nested.values()):
            if name in template["Resources"]:
                return template["Resources"][name]["Properties"]
        raise KeyError(name)

    def deploy(self, params: dict[str, str] | None = None, name: str = "orders") -> Deployment:
        return Deployment(Stack(self.translated, name, params or {}), self.nested)

    @cached_property
    def translated(self) -> dict:
        document = copy.deepcopy(self.main)
        document["Globals"]["Function"]["CodeUri"] = "s3://bucket/program"  # where `sam deploy` puts it
        defaults = {n: p["Default"] for n, p in document["Parameters"].items() if "Default" in p}
        defaults |= {n: "given" for n in document["Parameters"] if n not in defaults}
        return transform(document, defaults, NoManagedPolicies())


@dataclass
class Deployment:
    main: Stack
    templates: dict[str, dict]  # of the nested stacks

    @cached_property
    def nested(self) -> dict[str, Stack]:
        return {
            logical_id: Stack(self.templates[r["Properties"]["TemplateURL"]], f"{self.main.name}-{logical_id}-1A2B3C", r["Properties"].get("Parameters", {}))
            for logical_id, r in self.main.resources.items()
            if r["Type"] == "AWS::CloudFormation::Stack"
        }

    @property
    def stacks(self) -> list[Stack]:
        return [self.main, *self.nested.values()]

    def all(self, *types: str):
        """Every resource of these types, as (logical id, properties)."""
        for stack in self.stacks:
            for logical_id, resource in stack.resources.items():
                if resource["Type"] in types:
                    yield logical_id, resource["Properties"]

    def properties(self, name: str) -> dict:
        for stack in self.stacks:
            if name in stack.resources:
                return stack.resources[name]["Properties"]
        raise KeyError(name)

    def environment(self, function: str) -> dict[str, str]:
        return self.properties(function)["Environment"]["Variables"]


class Stack:
    def __init__(self, template: dict, name: str, params: dict[str, str]):
        self.template, self.name = template, name
        self.params = {n: str(p["Default"]) for n, p in template["Parameters"].items() if "Default" in p}
        self.params |= {n: str(v) for n, v in params.items()}

    # ------------------------------------------------------------ what is refused

    @cached_property
    def refusals(self) -> list[str]:
        """What is wrong with the parameters, in the words that a person reads."""
        found = [f"unknown parameter {n}" for n in self.params if n not in self.template["Parameters"]]
        for name, spec in self.template["Parameters"].items():
            found += self._violations(name, spec)
        for rule in self.template.get("Rules", {}).values():
            if "RuleCondition" in rule and not self._holds(rule["RuleCondition"]):
                continue
            found += [a["AssertDescription"] for a in rule["Assertions"] if not self._holds(a["Assert"])]
        return found

    def _violations(self, name: str, spec: dict) -> list[str]:
        if name not in self.params:
            return [f"{name} is required"]
        value, wrong = self.params[name], False
        if "AllowedValues" in spec:
            wrong |= value not in [str(v) for v in spec["AllowedValues"]]
        if "AllowedPattern" in spec:
            wrong |= re.fullmatch(spec["AllowedPattern"], value) is None
        if spec["Type"] == "Number":
            if re.fullmatch(r"-?\d+", value) is None:
                wrong = True
            else:
                wrong |= not spec.get("MinValue", int(value)) <= int(value) <= spec.get("MaxValue", int(value))
        else:
            wrong |= not spec.get("MinLength", 0) <= len(value) <= spec.get("MaxLength", len(value))
        return [f"{name}: {spec.get('ConstraintDescription', 'not allowed')}"] if wrong else []

    # ------------------------------------------------------------ conditions and rules

    def _holds(self, test) -> bool:
        (function, of), = test.items()
        match function:
            case "Fn::Equals":
                return str(self.resolve(of[0])) == str(self.resolve(of[1]))
            case "Fn::Not":
                return not self._holds(of[0])
            case "Fn::And" | "Fn::Or":
                assert 2 <= len(of) <= 10, f"{function} takes 2 to 10 tests"
                return (all if function == "Fn::And" else any)(self._holds(t) for t in of)
            case "Fn::Contains":
                return str(self.resolve(of[1])) in [str(v) for v in of[0]]
            case "Condition":
                return self._holds(self.template["Conditions"][of])
        raise NotImplementedError(function)

    def holds(self, condition: str) -> bool:
        return self._holds({"Condition": condition})

    # ------------------------------------------------------------ resources

    @cached_property
    def resources(self) -> dict[str, dict]:
        """The resources that are made, resolved."""
        made = {n: r for n, r in self.template["Resources"].items() if "Condition" not in r or self.holds(r["Condition"])}
        return {
            n: {"Type": r["Type"], "Properties": self.resolve(r.get("Properties", {}))} | {k: r[k] for k in ("DeletionPolicy",) if k in r}
            for n, r in made.items()
        }

    @cached_property
    def outputs(self) -> dict[str, str]:
        return {
            n: self.resolve(o["Value"]) for n, o in self.template.get("Outputs", {}).items() if "Condition" not in o or self.holds(o["Condition"])
        }

    def resolve(self, value):
        if isinstance(value, list):
            return [v for v in map(self.resolve, value) if v is not NOTHING]
        if not isinstance(value, dict):
            return value
        if len(value) == 1:
            (key, of), = value.items()
            if key == "Ref":
                return self._ref(of)
            if key.startswith("Fn::"):
                return self._function(key, of)
        pairs = {k: self.resolve(v) for k, v in value.items()}
        return {k: v for k, v in pairs.items() if v is not NOTHING}

    def _ref(self, name: str):
        pseudo = {
            "AWS::NoValue": NOTHING, "AWS::StackName": self.name, "AWS::Region": REGION, "AWS::AccountId": ACCOUNT,
            "AWS::Partition": "aws", "AWS::URLSuffix": "amazonaws.com",
            "AWS::StackId": f"arn:aws:cloudformation:{REGION}:{ACCOUNT}:stack/{self.name}/{uuid.uuid5(uuid.NAMESPACE_URL, self.name)}",
        }
        if name in pseudo:
            return pseudo[name]
        if name in self.params:
            return self.params[name]
        self._must_exist(name)
        return f"<{self.name}/{name}>"

    def _get_att(self, name: str, attribute: str) -> str:
        self._must_exist(name)
        return f"<{self.name}/{name}.{attribute}>"

    def _must_exist(self, name: str):
        resource = self.template["Resources"][name]
        assert "Condition" not in resource or self.holds(resource["Condition"]), f"{name} is referred to and not made"

    def _function(self, function: str, of):
        match function:
            case "Fn::If":
                return self.resolve(of[1] if self.holds(of[0]) else of[2])
            case "Fn::GetAtt":
                name, attribute = of.split(".", 1) if isinstance(of, str) else (of[0], ".".join(of[1:]))
                return self._get_att(name, attribute)
            case "Fn::Sub":
                text, given = (of, {}) if isinstance(of, str) else of
                given = {k: self.resolve(v) for k, v in given.items()}
                return re.sub(r"\$\{([^!}][^}]*)\}", lambda m: str(self._substitute(m[1].strip(), given)), text)
            case "Fn::Join":
                return of[0].join(map(str, self.resolve(of[1])))
            case "Fn::Split":
                return self.resolve(of[1]).split(of[0])
            case "Fn::Select":
                return self.resolve(of[1])[int(of[0])]
            case "Fn::FindInMap":
                table, key, column = (self.resolve(x) for x in of)
                return self.template["Mappings"][table][str(key)][column]
            case "Fn::GetAZs":
                return [REGION + "a", REGION + "b", REGION + "c"]
        raise NotImplementedError(function)

    def _substitute(self, name: str, given: dict):
        if name in given:
            return given[name]
        if "." in name:
            return self._get_att(*name.split(".", 1))
        return self._ref(name)
