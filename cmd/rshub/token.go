package main

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/rshub/rshub/internal/base/quantity"
	"github.com/rshub/rshub/internal/program/app"
	"github.com/rshub/rshub/internal/program/cli"
	"github.com/rshub/rshub/internal/program/config"
)

const (
	// tokenPrefix begins every token, so that scanners for secrets recognise one.
	tokenPrefix = "rshub_"
	tokenBytes  = 32
	// shownHash is the number of digits shown of a token's hash, and leastHash the least
	// number that identifies one.
	shownHash = 12
	leastHash = 4
	longest   = 100 // name of a publisher, in characters
)

const tokenHelp = `The publishers are in the file that the hub reads: --publishers-file, or
publishers.yaml in --data-dir. Flags, environment and --config work as for
` + "`rshub serve`" + `. Run this command as the user that the hub runs as. A running hub
uses a change within 5 seconds, or at once after ` + "`rshub reload`" + `.`

// tokenCommand is `rshub token`.
func tokenCommand(environ []string) *cobra.Command {
	return cli.Group("token", "Manage who may publish with a token",
		tokenCreate(environ), tokenList(environ), tokenRevoke(environ))
}

// onPublishers adds the flags that name the publishers file, and runs a command on it.
func onPublishers(environ []string, cmd *cobra.Command, run func(cmd *cobra.Command, path string, args []string) error) *cobra.Command {
	config.AddFlags(cmd.Flags(), "config", "data-dir", "publishers-file")
	cmd.Long += "\n\n" + tokenHelp
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := config.PublishersFile(cmd.Flags(), environ)
		if err != nil {
			return cli.WrongSettings(err)
		}
		return run(cmd, path, args)
	}
	return cmd
}

func tokenCreate(environ []string) *cobra.Command {
	var topics, reads []string
	cmd := &cobra.Command{
		Use: "create NAME [--topic PATTERN] [--reads PATTERN]", Short: "Create a token for a publisher or a reader", Args: cli.Exactly("publisher"),
		Long: `Creates a token for a publisher and prints it. With it the publisher may publish to
the topics that match --topic, and, where the hub has --stream=token, read the history
of those that match --reads. The token is never shown again, because the file has only
its SHA-256. A publisher that has a token already gets a second one, so that
it can switch before you revoke the first.`,
		Example: `  rshub token create library --topic 'https://example.org/changes/*'
  rshub token create aggregator --reads 'https://example.org/*'
  rshub token create library > new-token`,
	}
	cmd.Flags().StringArrayVar(&topics, "topic", nil, "`PATTERN` of topics that the publisher may publish to, such as https://example.org/*; repeatable")
	cmd.Flags().StringArrayVar(&reads, "reads", nil, "`PATTERN` of topics whose history it may read; repeatable")
	return onPublishers(environ, cmd, func(cmd *cobra.Command, path string, args []string) error {
		name := args[0]
		if err := checkPublisher(name, topics, reads); err != nil {
			return err
		}
		var random [tokenBytes]byte
		if _, err := rand.Read(random[:]); err != nil {
			return err
		}
		token := tokenPrefix + base64.RawURLEncoding.EncodeToString(random[:])
		sum := sha256.Sum256([]byte(token))
		if err := config.AddToken(path, name, topics, reads, sum); err != nil {
			return tokenFailure(err)
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), token); err != nil {
			return fmt.Errorf("the token could not be shown, so revoke it (rshub token revoke %s --token %s): %w", name, shown(sum), err)
		}
		return announce(cmd, `This is a token of %q, to be sent as "Authorization: Bearer TOKEN". It is not shown again; its SHA-256 (%s...) is in %s.`,
			name, shown(sum), path)
	})
}

// checkPublisher refuses a name or topics that a hub would refuse.
func checkPublisher(name string, topics, reads []string) error {
	switch {
	case name == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(name):
		return cli.Fail(cli.ExitUsage, "%q can't be a publisher's name: logs and lists show it, so use printable characters only", name)
	case utf8.RuneCountInString(name) > longest:
		return cli.Fail(cli.ExitUsage, "a publisher's name has at most %d characters", longest)
	}
	if err := app.CheckPublishers([]config.Publisher{{Name: name, Topics: topics}}); err != nil {
		return cli.Fail(cli.ExitUsage, "--topic: %w", err)
	}
	if err := app.CheckPublishers([]config.Publisher{{Name: name, Reads: reads}}); err != nil {
		return cli.Fail(cli.ExitUsage, "--reads: %w", err)
	}
	return nil
}

func tokenList(environ []string) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List the publishers and their tokens", Args: cli.NoArguments,
		Long: `Lists the publishers, the topics that they may publish to and read, and the first
digits of each token's SHA-256, which ` + "`rshub token revoke`" + ` takes.`,
		Example: `  rshub token ls
  rshub token ls --json | jq -r .name`,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a line")
	return onPublishers(environ, cmd, func(cmd *cobra.Command, path string, _ []string) error {
		list, err := config.ReadPublishers(path)
		if err != nil && !errors.Is(err, config.ErrNoPublishersFile) {
			return err
		}
		if len(list) == 0 && !asJSON {
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "There is no publisher in %s yet. `rshub token create` adds one.\n", path); err != nil {
				return err
			}
		}
		return printPublishers(cmd.OutOrStdout(), list, asJSON)
	})
}

func printPublishers(out io.Writer, list []config.Publisher, asJSON bool) error {
	var rows [][]string
	for _, p := range list {
		hashes := make([]string, 0, len(p.TokenSHA256))
		for _, sum := range p.TokenSHA256 {
			hashes = append(hashes, shown(sum))
		}
		if !asJSON {
			secret := "no"
			if p.Secret != "" {
				secret = "yes"
			}
			rows = append(rows, []string{p.Name, strings.Join(p.Topics, " "), strings.Join(p.Reads, " "), strconv.Itoa(len(hashes)), strings.Join(hashes, " "), secret})
			continue
		}
		err := cli.WriteJSON(out, struct {
			Name   string   `json:"name"`
			Topics []string `json:"topics"`
			Reads  []string `json:"reads,omitempty"`
			Tokens []string `json:"tokens"`
			Signs  bool     `json:"signs"`
		}{p.Name, p.Topics, p.Reads, hashes, p.Secret != ""})
		if err != nil {
			return err
		}
	}
	if asJSON {
		return nil
	}
	return cli.WriteTable(out, []string{"PUBLISHER", "TOPICS", "READS", "TOKENS", "SHA-256", "SECRET"}, rows)
}

func tokenRevoke(environ []string) *cobra.Command {
	var token string
	var yes bool
	cmd := &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a token, or a publisher with all its tokens", Args: cli.Exactly("publisher"),
		Long: `Revokes one token of a publisher. --token names it by the first digits of its
SHA-256, as ` + "`rshub token ls`" + ` shows them, or is the token itself. Without --token
the command revokes the publisher with all its tokens and its secret. The hub
refuses the token once it has read the file again: within 5 seconds, or at once
after ` + "`rshub reload`" + `.`,
		Example: `  rshub token revoke library --token 3f9a01c2
  rshub token revoke library --yes
  rshub reload`,
	}
	cmd.Flags().StringVar(&token, "token", "", "`PREFIX` of the token's SHA-256, or the token")
	cmd.Flags().BoolVar(&yes, "yes", false, "revoke the publisher with all its tokens, if --token is not given")
	return onPublishers(environ, cmd, func(cmd *cobra.Command, path string, args []string) error {
		name := args[0]
		if !cmd.Flags().Changed("token") {
			return revokePublisher(cmd, path, name, yes)
		}
		prefix := strings.ToLower(token)
		if strings.HasPrefix(token, tokenPrefix) {
			prefix = fmt.Sprintf("%x", sha256.Sum256([]byte(token)))
		}
		if len(prefix) < leastHash || strings.Trim(prefix, "0123456789abcdef") != "" {
			return cli.Fail(cli.ExitUsage, "--token needs the first digits of the token's SHA-256, %d at least, as `rshub token ls` shows them", leastHash)
		}
		sum, err := config.RevokeToken(path, name, prefix)
		if err != nil {
			return tokenFailure(err)
		}
		return announce(cmd, "The token %s... of %q is revoked in %s.", shown(sum), name, path)
	})
}

func revokePublisher(cmd *cobra.Command, path, name string, yes bool) error {
	if !yes {
		if _, err := config.FindPublisher(path, name); err != nil {
			return tokenFailure(err)
		}
		return cli.Fail(cli.ExitUsage, "this would revoke all tokens and the secret of %q, so nothing was done. Repeat the command with --yes to revoke them, or name one token with --token", name)
	}
	p, err := config.RemovePublisher(path, name)
	if err != nil {
		return tokenFailure(err)
	}
	return announce(cmd, "Publisher %q is revoked in %s, with %s.", name, path, quantity.Count(len(p.TokenSHA256), "token", "tokens"))
}

// tokenFailure gives an error its exit code.
func tokenFailure(err error) error {
	switch {
	case errors.Is(err, config.ErrNoPublisher), errors.Is(err, config.ErrNoToken), errors.Is(err, config.ErrNoPublishersFile):
		return cli.Fail(cli.ExitNotFound, "%w", err)
	case errors.Is(err, config.ErrRefusedChange):
		return cli.Fail(cli.ExitRefused, "%w", err)
	}
	return err
}

// announce reports a change, and when a hub uses it.
func announce(cmd *cobra.Command, format string, args ...any) error {
	_, err := fmt.Fprintf(cmd.ErrOrStderr(), format+"\nA running hub reads it within 5 seconds. `rshub reload` makes it do so at once, and says what is in force.\n", args...)
	return err
}

func shown(sum [sha256.Size]byte) string { return fmt.Sprintf("%x", sum)[:shownHash] }
