package subscriptions

import "testing"

// A host is found by its name alone and with its port, however the two are spelled.
func TestHost(t *testing.T) {
	for text, tc := range map[string]struct{ yes, no []string }{
		"S.example": {
			yes: []string{"http://s.example/", "https://s.example./x", "http://S.EXAMPLE:08080/", "https://s.example:443?x"},
			no:  []string{"http://s.example.org/", "http://ss.example/", "http://s/"},
		},
		"s.example.": {yes: []string{"http://s.example/"}},
		"s.example:443": {
			yes: []string{"https://s.example/", "http://s.example:443/", "https://s.example:0443/"},
			no:  []string{"http://s.example/", "https://s.example:8443/"},
		},
		"s.example:080":        {yes: []string{"http://s.example/"}, no: []string{"https://s.example/"}},
		"2001:DB8:0::1":        {yes: []string{"http://[2001:db8::1]/", "http://[2001:0db8::0001]:81/"}, no: []string{"http://[2001:db8::2]/"}},
		"[2001:db8::1]":        {yes: []string{"http://[2001:db8:0::1]/"}},
		"[2001:db8:0::1]:8080": {yes: []string{"http://[2001:db8::1]:8080/"}, no: []string{"http://[2001:db8::1]/"}},
		"192.0.2.1":            {yes: []string{"http://192.0.2.1/", "http://[::ffff:192.0.2.1]/", "http://[::ffff:c000:201]/"}, no: []string{"http://192.0.2.10/"}},
		"%zz":                  {no: []string{"http://s.example/"}},
	} {
		h := ParseHost(text)
		for _, callback := range tc.yes {
			if !h.Has(Record{Subscription: &Subscription{Callback: callback}}) {
				t.Errorf("%s lacks %s", text, callback)
			}
		}
		for _, callback := range tc.no {
			if h.Has(Record{Request: &Request{Callback: callback}}) {
				t.Errorf("%s has %s", text, callback)
			}
		}
	}
	if Host("").Has(Record{}) || Host("").Has(Record{Request: &Request{Callback: "http://s.example/"}}) {
		t.Error("the zero Host has something")
	}
}
