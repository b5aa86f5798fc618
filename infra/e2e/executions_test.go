package main

import (
	"reflect"
	"testing"
)

func TestUnflatten(t *testing.T) {
	t.Parallel()
	// {"name": "1", "list": [7, "x", {"name": "1"}], "none": null}, as n8n stores it.
	f, err := unflatten(`[{"name":"1","list":"2","none":null},"1",[7,"3","4"],"x",{"name":"1"}]`)
	if err != nil {
		t.Fatal(err)
	}
	inner := map[string]any{"name": "1"}
	for _, test := range []struct {
		path []any
		want any
	}{
		{nil, map[string]any{"name": "1", "list": []any{7.0, "x", inner}, "none": nil}},
		{[]any{"name"}, "1"},
		{[]any{"list", 0}, 7.0},
		{[]any{"list", 2}, inner},
		{[]any{"list", 3}, nil},
		{[]any{"list", 2, "name"}, "1"},
		{[]any{"absent", 0, "name"}, nil},
		{[]any{"name", "absent"}, nil},
	} {
		if got := f.at(test.path...); !reflect.DeepEqual(got, test.want) {
			t.Errorf("at %v is %v, want %v", test.path, got, test.want)
		}
	}
	if f, err := unflatten(""); err != nil || f.at("x") != nil {
		t.Errorf("of nothing it made %v and error %v", f, err)
	}
}
