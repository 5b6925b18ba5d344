package docs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
)

var (
	metricName  = regexp.MustCompile(`\b(?:rshub|rspub|rssub|go|process)_[a-z0-9_]+`)
	settingName = regexp.MustCompile("`(--[a-z0-9-]+)")
)

// What is written by hand, the alerts included, names metrics and settings that
// there are.
func TestOperationsNamesWhatThereIs(t *testing.T) {
	atRoot(t)
	text := readDoc(t, operationsDoc)
	known := flagsOf(operatorCommands())
	for _, flag := range endFlags(t) {
		known = append(known, "`--"+flag)
	}
	for _, s := range sheets(t) {
		for _, r := range s.rows {
			known = append(known, settingName.FindAllString("`"+strings.Trim(r[0], "`"), -1)...)
			if strings.HasSuffix(s.name, "metrics") {
				known = append(known, metricName.FindAllString(strings.Join(r, " "), -1)...)
			}
		}
	}
	for _, name := range metricName.FindAllString(text, -1) {
		base := name
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			base = strings.TrimSuffix(base, suffix)
		}
		if !slices.Contains(known, name) && !slices.Contains(known, base) {
			t.Errorf("there is no metric %s", name)
		}
	}
	for _, name := range settingName.FindAllString(text, -1) {
		if !slices.Contains(known, name) {
			t.Errorf("there is no setting %s", name)
		}
	}
}

// beyondContract are the settings that the contract does not name, each with
// the reason why there is one.
var beyondContract = map[string]string{
	"stream-stall":     "a reader that takes nothing has to be ended at some time, and only the operator knows how slow the lines of readers are",
	"admin-auth-proxy": "--admin-auth-header counts only from proxies of its own, and is refused without them",
}

// What the settings are is settled by a document beside the repository, where
// there is one: no setting that it does not have, except those of
// beyondContract, and no other default.
func TestSettingsKeepTheContract(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile(filepath.FromSlash("../shared/contract.md"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("../shared/contract.md is not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## 1. rshub serve")
	section, rest, _ := strings.Cut(section, "\n## 2.")
	_, later, _ := strings.Cut(rest, "\n## 7.") // names alone, without defaults
	_, plain, err := config.Load(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range plain {
		if o.Name == "config" {
			continue // the table lists what is in that file
		}
		row, secret := "", strings.TrimSuffix(o.Name, "-file") // secrets may be in files
		for line := range strings.Lines(section) {
			if strings.HasPrefix(line, "|") && (strings.Contains(cells(line)[0], "`--"+o.Name+"`") || strings.Contains(cells(line)[0], "`--"+secret+"`")) {
				row = line
			}
		}
		named := row != "" || strings.Contains(later, "`--"+o.Name+"`") || strings.Contains(later, "`--"+o.Name+" ")
		if _, beyond := beyondContract[o.Name]; beyond && named {
			t.Errorf("the contract names --%s by now: remove it from beyondContract", o.Name)
		} else if beyond || named && row == "" {
			continue
		}
		if row == "" {
			t.Errorf("--%s is not in the contract", o.Name)
		} else if text := o.Text(); text != "" && text != "false" && !strings.Contains(row, code(text)) {
			t.Errorf("the contract does not name the default %s of --%s: %s", text, o.Name, row)
		}
	}
}

// operatorCommands are the commands of package cli.
func operatorCommands() *cobra.Command {
	env := cli.Env{Getenv: func(string) string { return "" }}
	return cli.Root("rshub", "", "dev", cli.Info(env), cli.Top(env), cli.Events(env), cli.Refusals(env), cli.Streams(env), cli.Topic(env), cli.Subscription(env), cli.Notification(env), cli.Reload(env), cli.Backup(env), cli.Upgrade(env), cli.Validate(), cli.Callback(), cli.Try(env), cli.Health("rshub", nil))
}

// flagsOf returns the flags of a command and of all below it.
func flagsOf(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "`--"+f.Name) })
	for _, child := range cmd.Commands() {
		names = append(names, flagsOf(child)...)
	}
	return names
}

// The commands that are recommended are there, with their flags.
func TestOperationsNamesCommands(t *testing.T) {
	atRoot(t)
	found := 0
	for _, m := range regexp.MustCompile("`rshub ([^`]+)`").FindAllStringSubmatch(readDoc(t, operationsDoc), -1) {
		args := strings.Fields(m[1])
		if slices.Contains([]string{"serve", "config", "token", "export", "import", "restore", "check"}, args[0]) {
			continue // of package main
		}
		found++
		cmd, rest, err := operatorCommands().Find(args)
		if err != nil || !cmd.HasParent() || cmd.HasSubCommands() && len(rest) > 0 {
			t.Errorf("there is no command %s: %v", m[1], err)
			continue
		}
		for _, arg := range rest {
			if name, ok := strings.CutPrefix(arg, "--"); ok && cmd.Flags().Lookup(name) == nil {
				t.Errorf("rshub %s: there is no flag --%s", m[1], name)
			}
		}
	}
	if found < 10 {
		t.Errorf("only %d commands were found", found)
	}
}
