package source

import (
	"context"
	"encoding/hex"
	flags "flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rshub/rshub/resourcesync"
)

var postgres = flags.Bool("postgres", false, "publish a table of a PostgreSQL server, which the test starts, in some two minutes")

// killCatalogueEnv has the catalogue and the state of a process that is going to be killed.
const killCatalogueEnv = "RSHUB_TEST_CATALOGUE"

// TestKilledCatalogueChild is that process. Else it is no test.
func TestKilledCatalogueChild(t *testing.T) {
	file, state, ok := strings.Cut(os.Getenv(killCatalogueEnv), "\n")
	if !ok {
		t.Skip("it is run by TestKilledCatalogue")
	}
	c, x := openCatalogue(t, file, state)
	defer x.Close() //nolint:errcheck // it is killed
	must(t, c.Run(context.Background()))
}

func openCatalogue(t *testing.T, file, state string) (*Catalogue, *Index) {
	t.Helper()
	x, err := OpenIndex(state)
	must(t, err)
	o := FolderOptions{Settle: 10 * time.Millisecond, MaxDeleted: 1, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	c, err := newCatalogue(x, o, CatalogueOptions{Location: file}, "https://source.example.org/", address{}, state, nil)
	must(t, err)
	return c, x
}

// killed runs processes that publish a catalogue, which export writes anew, and kills them at random. Export returns what it wrote; last: it does so for the last time. In the end the
// index is what export returned last, and the log leads from the first catalogue to it.
func killed(t *testing.T, rnd *rand.Rand, rounds int, life time.Duration, export func(file string, last bool) map[string]string) {
	t.Helper()
	file, state := filepath.Join(t.TempDir(), "catalogue.jsonl"), t.TempDir()
	base := export(file, false)
	c, x := openCatalogue(t, file, state)
	must(t, c.Scan(t.Context()))
	must(t, x.Close())
	for range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledCatalogueChild$")
		cmd.Env = append(os.Environ(), killCatalogueEnv+"="+file+"\n"+state)
		cmd.Stderr = os.Stderr
		must(t, cmd.Start())
		for end := time.Now().Add(upTo(rnd, life)); time.Now().Before(end); time.Sleep(upTo(rnd, 50*time.Millisecond)) {
			export(file, false)
		}
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
	}
	want := export(file, true)
	c, x = openCatalogue(t, file, state)
	defer x.Close() //nolint:errcheck // it was only read
	must(t, c.Scan(t.Context()))
	s := snap(t, x)
	defer s.Close()
	got := map[string]string{}
	for r, err := range s.Resources() {
		must(t, err)
		got[r.URL] = hex.EncodeToString(r.SHA256[:])
	}
	if !maps.Equal(got, want) {
		t.Errorf("the index has %d resources, and is not the last catalogue with %d", len(got), len(want))
	}
	changes := 0
	for change, err := range s.Changes(0) {
		must(t, err)
		changes++
		url := change.Resource.URL
		if _, was := base[url]; was == (change.Change == resourcesync.Created) {
			t.Errorf("change %d says that %s was %s", change.Seq, url, change.Change)
		}
		if base[url] = hex.EncodeToString(change.Resource.SHA256[:]); change.Change.Removes() {
			delete(base, url)
		}
	}
	if !maps.Equal(base, want) {
		t.Error("the log of changes does not lead to the last catalogue")
	}
	t.Logf("%d changes of %d resources in %d lives", changes, len(want), rounds)
}

func upTo(rnd *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rnd.Int64N(int64(most)))
}

// SRC-09: a process that publishes a catalogue is killed at random moments while the catalogue is written anew.
func TestKilledCatalogue_SRC09(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	state := map[string]string{}
	killed(t, rnd, 8, 300*time.Millisecond, func(file string, _ bool) map[string]string {
		var text strings.Builder
		for range 200 {
			url, sum := fmt.Sprintf("https://repo.example.org/%d", rnd.IntN(3000)), shaOf(strconv.Itoa(rnd.Int()))
			if state[url] = hex.EncodeToString(sum[:]); rnd.IntN(4) == 0 {
				delete(state, url)
			}
		}
		for url, sum := range state {
			fmt.Fprintf(&text, "{\"url\":%q,\"hash\":\"sha-256:%s\"}\n", url, sum)
		}
		replaceCatalogue(t, file, text.String()+ending(len(state)))
		return maps.Clone(state)
	})
}

func replaceCatalogue(t *testing.T, file, text string) {
	t.Helper()
	must(t, os.WriteFile(file+".new", []byte(text), 0o600))
	must(t, os.Rename(file+".new", file))
}

// A table of 100,000 rows is published through whole catalogues, as docs/publisher.md says, while transactions
// commit in another order than they begin, and the publisher is killed. `go test ./publisher/source -run Postgres -postgres`.
func TestNothingOfATableIsLost_Postgres(t *testing.T) {
	if !*postgres {
		t.Skip("-postgres runs it")
	}
	psql := startPostgres(t)
	psql(`create table item(id bigint primary key, modified timestamptz not null default now(), sha256 bytea not null);
		insert into item select g, now(), sha256(g::text::bytea) from generate_series(1, 100000) g`)
	rnd := rand.New(rand.NewPCG(1, 2))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{}, 6)
	for w := range cap(ended) { // each has rows of its own, so none waits for another
		go func() {
			defer func() { ended <- struct{}{} }()
			rnd := rand.New(rand.NewPCG(uint64(w), 3))
			for n := 0; ctx.Err() == nil; n++ {
				row := func() int { return rnd.IntN(16666)*6 + w + 1 }
				psql(fmt.Sprintf(`begin; update item set modified = now(), sha256 = sha256(random()::text::bytea) where id in (%d, %d, %d);
					insert into item values (%d, now(), sha256(random()::text::bytea)); delete from item where id = %d; select pg_sleep(%f); commit`,
					row(), row(), row(), 200_000+n*6+w, row(), rnd.Float64()*rnd.Float64()*2))
			}
		}()
	}
	exports := 0
	killed(t, rnd, 10, 8*time.Second, func(file string, last bool) map[string]string {
		if last { // all that was begun is committed
			cancel()
			for range cap(ended) {
				<-ended
			}
		}
		exports++
		text := psql(`begin isolation level repeatable read read only;
			select json_build_object('url', 'https://repo.example.org/item/' || id, 'lastmod', modified, 'hash', 'sha-256:' || encode(sha256, 'hex')) from item;
			select json_build_object('end', true, 'count', count(*)) from item; commit`)
		replaceCatalogue(t, file, text)
		state := map[string]string{}
		for line := range strings.Lines(text) {
			_, rest, _ := strings.Cut(line, `"url" : "`)
			url, rest, ok := strings.Cut(rest, `"`)
			_, rest, _ = strings.Cut(rest, "sha-256:")
			if ok {
				state[url], _, _ = strings.Cut(rest, `"`)
			}
		}
		return state
	})
	t.Logf("%d exports", exports)
}

// startPostgres starts a server, and returns what runs SQL on it.
func startPostgres(t *testing.T) func(sql string) string {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		t.Fatal("there is no PostgreSQL: apt-get install -y postgresql")
	}
	dir, err := os.MkdirTemp("", "rspub-postgres-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	run := func(name string, args ...string) *exec.Cmd {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(filepath.Dir(found[0]), name), args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		if u, err := user.Lookup("postgres"); err == nil && os.Geteuid() == 0 { // it refuses to run as root
			uid, _ := strconv.Atoi(u.Uid)
			gid, _ := strconv.Atoi(u.Gid)
			must(t, os.Chown(dir, uid, gid))
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
		}
		return cmd
	}
	must(t, run("initdb", "-D", "data", "-A", "trust", "-U", "repo").Run())
	server := run("postgres", "-D", "data", "-c", "listen_addresses=", "-c", "unix_socket_directories="+dir, "-c", "log_min_messages=fatal")
	must(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		_ = server.Wait() // asked to end
	})
	psql := func(sql string) (string, error) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "psql", "-qAt", "-v", "ON_ERROR_STOP=1", "-h", dir, "-U", "repo", "postgres")
		cmd.Stdin = strings.NewReader(sql)
		out, err := cmd.Output()
		return string(out), err
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if _, err := psql("select 1"); err == nil {
			break
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	return func(sql string) string {
		out, err := psql(sql)
		if err != nil {
			t.Error(err)
		}
		return out
	}
}
