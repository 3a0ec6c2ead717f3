package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/sessionstore/sessionstore/memory"
)

// maxTurns ends a conversation that goes round in circles.
const maxTurns = 30

// agent answers prompts with a model that has a memory.
type agent struct {
	client anthropic.Client
	model  anthropic.Model
	system string
	tool   *memory.Tool
}

// run is one session: it sends the prompt, carries out what the model asks of
// its memory until it asks no more, and returns what it says at last.
func (a *agent) run(ctx context.Context, prompt string) (string, error) {
	messages := []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(prompt))}
	for range maxTurns {
		answer, err := a.client.Messages.New(ctx, anthropic.MessageNewParams{
			Model:     a.model,
			MaxTokens: 4096,
			System:    []anthropic.TextBlockParam{{Text: a.system}},
			Messages:  messages,
			Tools:     []anthropic.ToolUnionParam{{OfMemoryTool20250818: &anthropic.MemoryTool20250818Param{}}},
		})
		if err != nil {
			return "", err
		}
		if answer.StopReason != anthropic.StopReasonToolUse {
			return textOf(answer), nil
		}
		messages = append(messages, answer.ToParam(), anthropic.NewUserMessage(a.results(ctx, answer)...))
	}
	return "", errors.New("the model does not come to an end")
}

// results carries out the tool calls of an answer. Each gets a result.
func (a *agent) results(ctx context.Context, answer *anthropic.Message) []anthropic.ContentBlockParamUnion {
	var results []anthropic.ContentBlockParamUnion
	for _, block := range answer.Content {
		use, ok := block.AsAny().(anthropic.ToolUseBlock)
		if !ok {
			continue
		}
		if use.Name != memory.ToolName {
			results = append(results, anthropic.NewToolResultBlock(use.ID, fmt.Sprintf("Error: there is no tool %q", use.Name), true))
			continue
		}
		result := a.tool.Run(ctx, use.Input)
		results = append(results, anthropic.ContentBlockParamUnion{OfToolResult: &anthropic.ToolResultBlockParam{
			ToolUseID: use.ID,
			Content:   contentOf(result),
			IsError:   anthropic.Bool(result.IsError),
		}})
	}
	return results
}

// contentOf turns the answer of the memory into blocks of the SDK.
func contentOf(result memory.Result) []anthropic.ToolResultBlockParamContentUnion {
	var content []anthropic.ToolResultBlockParamContentUnion
	for _, b := range result.Content {
		if b.MediaType == "" {
			content = append(content, anthropic.ToolResultBlockParamContentUnion{OfText: &anthropic.TextBlockParam{Text: b.Text}})
			continue
		}
		image := anthropic.NewImageBlockBase64(b.MediaType, base64.StdEncoding.EncodeToString(b.Data))
		content = append(content, anthropic.ToolResultBlockParamContentUnion{OfImage: image.OfImage})
	}
	return content
}

func textOf(answer *anthropic.Message) string {
	var texts []string
	for _, block := range answer.Content {
		if text, ok := block.AsAny().(anthropic.TextBlock); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}
