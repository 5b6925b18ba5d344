package hub

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/rshub/rshub/validate"
	"github.com/rshub/rshub/websub"
)

// A body is hashed with no more secrets than one requester may have hashed. That delays neither
// other requesters nor those whose signature is right.
func TestHashingIsBounded(t *testing.T) {
	var all []validate.Publisher
	for i := range 6 {
		all = append(all, validate.Publisher{Name: fmt.Sprint(i), Topics: patterns("https://example.org/*"), Secret: fmt.Sprint("secret ", i)})
	}
	body := doc(0, 1, "a")
	w := newWorld(t, func(o *Options) {
		o.Publishers, o.MaxBody = validate.NewPublishers(all), int64(len(body))
	})
	post := func(from, secret string) int {
		return w.do(publish(body, with(websub.HeaderSignature, websub.SHA256.Sign(secret, []byte(body))), func(r *http.Request) { r.RemoteAddr = from + ":1" })).Code
	}
	for range 10 {
		if code := post("192.0.2.1", "secret 5"); code != http.StatusOK {
			t.Fatalf("a publisher got %d", code)
		}
	}
	for i, want := range []int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusTooManyRequests} {
		if code := post("192.0.2.2", "wrong"); code != want {
			t.Errorf("a wrong signature, time %d: %d, want %d", i+1, code, want)
		}
	}
	if code := post("192.0.2.1", "secret 5"); code != http.StatusOK {
		t.Errorf("a publisher elsewhere got %d", code)
	}
}
