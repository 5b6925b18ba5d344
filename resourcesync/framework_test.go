package resourcesync

import (
	"errors"
	"strings"
	"testing"
)

// DOC-20: which kind of document can change in which way. The specification
// pairs the archives with nothing, so that all three are taken.
func TestFrameworkPairs_DOC20(t *testing.T) {
	changes := []string{"created", "updated", "deleted"}
	for capability, legal := range map[string]string{
		"resourcelist":         "created updated",
		"resourcedump":         "created",
		"changelist":           "created updated",
		"changedump":           "created updated",
		"capabilitylist":       "created updated deleted",
		"description":          "created updated deleted",
		"resourcesync":         "created updated deleted", // the description, in version 0.9
		"resourcelist-archive": "created updated deleted",
		"resourcedump-archive": "created updated deleted",
		"changelist-archive":   "created updated deleted",
		"changedump-archive":   "created updated deleted",

		"":                        "",
		"resourcedump-manifest":   "",
		"changedump-manifest":     "",
		"change-notification":     "",
		"framework-notification":  "",
		"ResourceList":            "",
		"resourcelist changelist": "",
	} {
		for _, change := range changes {
			entry := urlOf(`<rs:md change="` + change + `" capability="` + capability + `"/>`)
			for where, in := range map[string]string{
				"after the root's rs:md":  framework(entry),
				"before the root's rs:md": docHead + entry + frameMD + tail,
			} {
				_, err := CheckNotification(strings.NewReader(in), Limits{})
				_, _, err2 := readAll(strings.NewReader(in), Limits{})
				for _, err := range []error{err, err2} {
					if err == nil && strings.Contains(legal, change) {
						continue
					}
					var e *Error
					if strings.Contains(legal, change) || !errors.As(err, &e) || e.Rule != "DOC-20" {
						t.Errorf("%q %s, %s: %v", capability, change, where, err)
					}
				}
			}
		}
	}
}
