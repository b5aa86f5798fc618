package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

// The two workflows are the same but for their names and what is about failure, and
// hold no secret.
func TestShippedWorkflows(t *testing.T) {
	t.Parallel()
	plain, failing := nodes(t, plainFile), nodes(t, failingFile)
	for _, name := range []string{webhookNode, workNode} {
		if plain[name] == nil || failing[name] == nil {
			t.Errorf("a workflow has no node %q", name)
		}
	}
	if failing[reportNode] == nil {
		t.Errorf("the workflow with a failure branch has no node %q", reportNode)
	}
	for name, node := range plain {
		switch name {
		case webhookNode: // another path
			for _, w := range []map[string]any{node, failing[name]} {
				p, _ := w["parameters"].(map[string]any)
				if p["httpMethod"] != "POST" || p["authentication"] != "headerAuth" || p["responseMode"] != "responseNode" {
					t.Errorf("the webhook is %v", p)
				}
			}
		case workNode, "Note: your work":
		default:
			if !reflect.DeepEqual(node, failing[name]) {
				t.Errorf("node %q differs between the workflows", name)
			}
		}
	}
	if table, _ := plain["Table of done events"]["parameters"].(map[string]any); table["tableName"] != doneTable {
		t.Errorf("the table of done events is %v", table["tableName"])
	}
}

func TestShippedCredential(t *testing.T) {
	t.Parallel()
	var credentials []struct {
		ID, Name, Type string
		Data           struct{ Name, Value string }
	}
	decode(t, credentialFile, &credentials)
	if len(credentials) != 1 {
		t.Fatalf("%d credentials", len(credentials))
	}
	c := credentials[0]
	if c.ID != credentialID || c.Type != "httpHeaderAuth" || c.Data.Name != tokenHeader || c.Data.Value != tokenPlaceholder {
		t.Errorf("got %+v", c)
	}
	for _, file := range []string{plainFile, failingFile} {
		used, _ := nodes(t, file)[webhookNode]["credentials"].(map[string]any)
		if want := map[string]any{"httpHeaderAuth": map[string]any{"id": c.ID, "name": c.Name}}; !reflect.DeepEqual(used, want) {
			t.Errorf("%s uses %v", file, used)
		}
	}
}

// nodes reads the nodes of a workflow by name.
func nodes(t *testing.T, file string) map[string]map[string]any {
	t.Helper()
	var w struct{ Nodes []map[string]any }
	decode(t, file, &w)
	found := map[string]map[string]any{}
	for _, node := range w.Nodes {
		name, _ := node["name"].(string)
		found[name] = node
	}
	return found
}

// decode reads a file by its path from the root of the project.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}
