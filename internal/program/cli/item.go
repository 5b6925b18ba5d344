package cli

import (
	"context"
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
)

// run is one run of a command that calls a hub.
type run struct {
	cmd    *cobra.Command
	client *client
	env    Env
	json   bool
	now    time.Time
}

// onHub makes cmd a command that calls a hub. Help is that of --json.
func (f *clientFlags) onHub(env Env, help string, cmd *cobra.Command, do func(r *run, args []string) error) *cobra.Command {
	f.add(cmd, help)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := f.client(env)
		if err != nil {
			return err
		}
		return do(&run{cmd, c, env, f.json, time.Now()}, args)
	}
	return cmd
}

// job is one run of a command on an item.
type job[T any] struct {
	*run
	found[T]
}

// onItem makes cmd a command on the item of kind k that its argument names. If the name can
// also come from flags, pick returns it; else pick is nil.
func onItem[T any](env Env, k kind[T], cmd *cobra.Command, pick func(args []string) string, do func(j *job[T]) error) *cobra.Command {
	var f clientFlags
	if pick == nil {
		cmd.Args = Exactly(k.noun)
		pick = func(args []string) string { return args[0] }
	}
	cmd.ValidArgsFunction = k.complete(env, &f)
	return f.onHub(env, jsonWhole, cmd, func(r *run, args []string) error {
		found, err := k.find(cmd.Context(), r.client, pick(args))
		if err != nil {
			return err
		}
		return do(&job[T]{r, found})
	})
}

// Exactly requires one argument. The noun says what it names.
func Exactly(noun string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return Fail(ExitUsage, "which %s? %s", noun, cmd.UseLine())
		case len(args) > 1:
			return tooMuch(noun, args)
		}
		return nil
	}
}

// AtMost allows one argument. The noun says what it names.
func AtMost(noun string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > 1 {
			return tooMuch(noun, args)
		}
		return nil
	}
}

func tooMuch(noun string, args []string) error {
	return Fail(ExitUsage, "one %s at a time; %q is too much%s", noun, oddFlag(args, args[1]), dashes(args))
}

// report makes a call, and prints the answer as output does.
func report[A any](r *run, method, path string, body any, show func(A) error) error {
	var raw json.RawMessage
	if err := r.client.call(r.cmd.Context(), method, path, nil, body, &raw); err != nil {
		return err
	}
	return output(r, raw, show)
}

// output prints what the API gave: with show, or with --json as it is.
func output[A any](r *run, raw json.RawMessage, show func(A) error) error {
	if r.json {
		return printJSON(r.cmd.OutOrStdout(), raw)
	}
	a, err := decode[A](r.client, raw)
	if err != nil {
		return err
	}
	return show(a)
}

// answer is report for a result of one line.
func answer[A any](r *run, method, path string, body any, text func(A) string) error {
	return report(r, method, path, body, func(a A) error {
		say(r.cmd.OutOrStdout(), "%s\n", Line(text(a)))
		return nil
	})
}

// show prints an item as names and values, or as the API's JSON.
func (j *job[T]) show(rows [][2]string) error {
	if j.json {
		return printJSON(j.cmd.OutOrStdout(), j.raw)
	}
	return details(j.cmd.OutOrStdout(), rows)
}

// complete offers ids of kind k for completion in a shell.
func (k kind[T]) complete(env Env, f *clientFlags) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		c, err := f.client(env)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// Ids that cannot be read in time are not offered.
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		var offered []cobra.Completion
		_ = k.each(ctx, c, func(raw json.RawMessage) error {
			item, err := decode[T](c, raw)
			if err != nil {
				return err
			}
			if offered = append(offered, cobra.CompletionWithDesc(Line(k.id(item)), Line(k.about(item)))); len(offered) == maxOffered {
				return errEnough
			}
			return nil
		})
		return offered, cobra.ShellCompDirectiveNoFileComp
	}
}

// How many ids a shell is offered, and how long it waits for them.
const (
	maxOffered     = pageSize
	completeWithin = 2 * time.Second
)
