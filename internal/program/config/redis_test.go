package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestRedisSettings(t *testing.T) {
	c, o := load(t, []string{"--redis-url=redis://:hunter2@h:1", "--install-id=x", "--accept-empty-store", "--owner-lease=2s", "--redis-prefix=a:b"}, nil)
	if string(c.RedisURL) != "redis://:hunter2@h:1" || c.RetentionTotal != 512<<20 || c.OwnerLease != 2*time.Second || c.RedisPrefix != "a:b" || c.InstallID != "x" || !c.AcceptEmptyStore {
		t.Errorf("%+v", c)
	}
	if one := o.Get("retention-total"); one.Text() != "512MiB" || one.From != "default with redis-url" {
		t.Errorf("%+v", one)
	}
	if w := strings.Join(c.Warnings(), "\n"); !strings.Contains(w, "accept-empty-store") {
		t.Errorf("%q", w)
	}
	if c, _ = load(t, []string{"--redis-url=redis://h", "--retention-total=8GiB"}, nil); c.RetentionTotal != 8<<30 {
		t.Errorf("what is set is %d", c.RetentionTotal)
	}
	file := write(t, "url", "rediss+cluster://u:hunter2@h:1,i:2\n")
	if c, _ = load(t, nil, []string{"RSHUB_REDIS_URL_FILE=" + file}); string(c.RedisURL) != "rediss+cluster://u:hunter2@h:1,i:2" || c.RetentionTotal != 512<<20 {
		t.Errorf("from a file: %+v", c)
	}
	wantError(t, []string{"--redis-url=redis://h", "--redis-url-file=" + file}, nil, "--redis-url-file", "remove one")
	wantError(t, []string{"--redis-url-file=" + file + "x"}, nil, "--redis-url-file")
	wantError(t, []string{"--owner-lease=2s"}, nil, "--owner-lease", "redis-url is not set")
	wantError(t, []string{"--redis-url=redis://h", "--owner-lease=999ms"}, nil, "--owner-lease", "least is 1s")
	wantError(t, []string{"--redis-url=redis://h", "--accept-empty-store"}, nil, "install-id")
	wantError(t, []string{"--redis-url=redis://h", "--redis-prefix={a}"}, nil, "--redis-prefix")
}

// No message and nothing that is shown has the password of a Redis URL in it.
func TestRedisPasswordIsNotShown(t *testing.T) {
	const secret = "hunter2"
	for _, url := range []string{
		"redis://:" + secret + "@h", "redis://" + secret + "/x@h:1", "rediss+sentinel://u:" + secret + "@h:1,i:2/m",
		"redis+sentinel://h:1/m?sentinel-password=" + secret, "http://:" + secret + "@h", "redis+x://" + secret + "@h", secret,
	} {
		c, o, err := Load([]string{"--redis-url=" + url}, nil)
		text := fmt.Sprint(c, err, o.Get("redis-url"))
		if yaml, err := o.YAML(); err == nil {
			text += string(yaml)
		}
		if strings.Contains(text, secret) {
			t.Errorf("%s: %s", url, text)
		}
	}
}

func FuzzRedisURL(f *testing.F) {
	for _, s := range []string{"redis://h", "rediss+cluster://u:p@h:1,i:2", "redis+sentinel://h/m?sentinel-password=x", "redis://********@h", "://", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const secret = "hunter2"
		_, _ = parseRedis(s)
		if strings.Contains(s, "hunter") || strings.ContainsAny(s, "@?") {
			return
		}
		if strings.Contains(hideRedis("redis://u:"+secret+s+"@h"), secret) || strings.Contains(hideRedis("redis://h?a="+secret+s), secret) {
			t.Errorf("%q shows a secret", s)
		}
	})
}
