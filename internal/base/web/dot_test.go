package web

import (
	"net/url"
	"testing"
)

func TestHasDotSegment(t *testing.T) {
	for address, want := range map[string]bool{
		"http://h/x/../y": true, "http://h/x/./y": true, "http://h/..": true, "http://h/x/.": true, "http://h/x/%2e%2E/y": true, "http://h/x/.%2e/y": true,
		"http://h/x/%2e": true, "http://h/x/..%2Fy": true, "http://h/x%2f..%2fy": true, `http://h/x/..\y`: true, "http://h/x/..%5cy": true, "http://h/..?a=b": true,
		"http://h": false, "http://h/": false, "http://h/x//y": false, "http://h/.x/y..": false, "http://h/.../y": false, "http://h/x?a=/../y": false, "http://h/x/..;a": false,
		"http://h/x/%252e%252e/y": false,
	} {
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := HasDotSegment(u); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}
