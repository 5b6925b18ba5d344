package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// If the file of a large body is missing, the entry is passed over with a gap after --give-up, and the
// next ones are delivered. If the whole folder is missing, that is no damage: deliveries wait for it.
func TestBodyIsGone(t *testing.T) {
	const giveUp = time.Second
	subscriber := newReceiver(t, 1)
	h := newHub(t, "--retry-first=100ms")
	h.start()
	src := newSource("http://" + h.addr + "/topic")
	h.subscribe(src.topic, subscriber.url(0, "/cb")).want(t, http.StatusAccepted)
	h.active(1)
	// No callback has accepted it when the hub ends, so the next hub reads it again.
	fails := func() {
		subscriber.onPost(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	}
	publishAndKill := func() string {
		before := len(subscriber.got())
		id := h.accepted(src.topic, src.next(200<<10)).ID
		eventually(t, time.Minute, func() error {
			if len(subscriber.got()) == before {
				return fmt.Errorf("notification %s was not tried yet", id)
			}
			return nil
		})
		h.kill()
		subscriber.onPost(nil)
		return id
	}
	delivered := func(id string) func() error {
		return func() error {
			for _, d := range subscriber.got() {
				if d.id == id && len(d.body) > 0 {
					return nil
				}
			}
			return fmt.Errorf("notification %s is not there", id)
		}
	}
	paused := func(reason string, since time.Duration) func() error {
		return func() error {
			var page struct {
				Items []struct {
					Pauses []struct {
						Reason string    `json:"reason"`
						Since  time.Time `json:"since"`
					} `json:"pauses"`
				} `json:"items"`
			}
			h.api("/api/v1/topics", &page)
			if len(page.Items) != 1 || len(page.Items[0].Pauses) != 1 || page.Items[0].Pauses[0].Reason != reason {
				return fmt.Errorf("the topic does not say that it is paused for %q: %+v", reason, page.Items)
			}
			if since > time.Since(page.Items[0].Pauses[0].Since) {
				return fmt.Errorf("the topic is not paused for %v yet", since)
			}
			return nil
		}
	}

	fails()
	id := publishAndKill()
	folder, aside := filepath.Join(h.dir, "bodies"), filepath.Join(h.dir, "aside")
	if err := os.Rename(folder, aside); err != nil {
		t.Fatal(err)
	}
	h.args = append(h.args, "--give-up="+giveUp.String())
	h.start()
	seen := len(subscriber.got())
	eventually(t, time.Minute, paused("store", 2*giveUp)) // of which nothing follows
	if n := len(subscriber.got()); n != seen {
		t.Errorf("%d deliveries without a body", n-seen)
	}
	if err := os.RemoveAll(folder); err != nil { // the hub made it anew
		t.Fatal(err)
	}
	if err := os.Rename(aside, folder); err != nil {
		t.Fatal(err)
	}
	eventually(t, time.Minute, delivered(id))

	fails()
	id = publishAndKill()
	if err := os.Remove(filepath.Join(folder, id)); err != nil {
		t.Fatal(err)
	}
	h.start()
	next := h.accepted(src.topic, src.next(0)).ID
	eventually(t, time.Minute, delivered(next))
	eventually(t, time.Minute, func() error {
		var subs struct {
			Items []struct {
				ID string `json:"id"`
			} `json:"items"`
		}
		h.api("/api/v1/subscriptions", &subs)
		var gaps struct {
			Items []struct {
				Count  int    `json:"count"`
				Reason string `json:"reason"`
			} `json:"items"`
		}
		h.api("/api/v1/subscriptions/"+subs.Items[0].ID+"/gaps", &gaps)
		if len(gaps.Items) != 1 || gaps.Items[0].Count != 1 || gaps.Items[0].Reason != "damaged" {
			return fmt.Errorf("its gaps are %+v", gaps.Items)
		}
		return nil
	})
	if err := paused("damaged", 0)(); err != nil { // and passed over
		t.Error(err)
	}
	backup, err := exec.CommandContext(t.Context(), binary, "backup", filepath.Join(t.TempDir(), "backup"), "--admin-url", "http://"+h.admin).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 6 || !strings.Contains(string(backup), "everything except 1 notification, topic or subscription ") {
		t.Errorf("a backup without what is damaged: %v, %s", err, backup)
	}
	for event, want := range map[string]int{"read_failed": 1, "read_recovered": 1, "notification_damaged": 1, "damage_passed_over": 1} {
		if n := strings.Count(h.log.String(), `"event":"`+event+`"`); n != want {
			t.Errorf("%d lines of %s, want %d:\n%s", n, event, want, h.log)
		}
	}
}
