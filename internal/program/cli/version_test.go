package cli

import (
	"runtime/debug"
	"testing"
)

// A version says what a program was built from, however it was built.
func TestOrigin(t *testing.T) {
	vcs := func(modified string) *debug.BuildInfo {
		return &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123abc"}, {Key: "vcs.modified", Value: modified}}}
	}
	for _, c := range []struct {
		name   string
		info   *debug.BuildInfo
		linked string
		want   string
	}{
		{"go build", vcs("false"), "", "commit 0123abc"},
		{"go build with changes", vcs("true"), "", "commit 0123abc with changes"},
		{"go install MODULE@VERSION", &debug.BuildInfo{Main: debug.Module{Version: "v0.9.0", Sum: "h1:x="}}, "", "module h1:x="},
		{"go install MODULE@COMMIT", &debug.BuildInfo{Main: debug.Module{Version: "v0.9.1-0.20261124043712-3de04fbfb211", Sum: "h1:x="}}, "", "commit 3de04fbfb211"},
		{"an image", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "0123abc", "commit 0123abc"},
		{"without a repository", &debug.BuildInfo{}, "", ""},
		{"nothing", nil, "", ""},
	} {
		if got := originOf(c.info, c.linked).String(); got != c.want {
			t.Errorf("%s: %q, not %q", c.name, got, c.want)
		}
	}
}
