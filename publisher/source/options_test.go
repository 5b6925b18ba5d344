package source

import (
	"strings"
	"testing"
)

// A password in the public URL is refused and not repeated.
func TestPasswordInPublicURLIsNotShown(t *testing.T) {
	const password = "pw-of-somebody"
	for _, address := range []string{"https://u:" + password + "@example.org/", "https://" + password + "@example.org", "https://u:%zz" + password + "@example.org/"} {
		err := (&Options{PublicURL: address}).checkURL()
		if err == nil || strings.Contains(err.Error(), password) || !strings.Contains(err.Error(), "user name") {
			t.Errorf("%s: %v", address, err)
		}
	}
}
