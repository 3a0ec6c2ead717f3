package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"sync"
)

// script is an exchange with a model, in the form of its API: two sessions, and
// for each request what must be new in it and what is answered.
//
//go:embed exchange.json
var script []byte

// scripted is a server in the place of the model. It is strict: a request that
// is not the one of the script is refused, and so ends the session.
type scripted struct {
	Steps []step

	mu   sync.Mutex
	next int
}

type step struct {
	// Prompt begins a session.
	Prompt string `json:"prompt"`
	// Results are the tool_result blocks of the last message otherwise.
	Results []any `json:"results"`
	// Answer is the content of the answer, and StopReason why it ends.
	Answer     []any  `json:"answer"`
	StopReason string `json:"stop_reason"`
}

func newScript(data []byte) *scripted {
	s := &scripted{}
	if err := json.Unmarshal(data, &s.Steps); err != nil {
		panic(err) // it is part of the program
	}
	return s
}

func (s *scripted) prompts() []string {
	var prompts []string
	for _, step := range s.Steps {
		if step.Prompt != "" {
			prompts = append(prompts, step.Prompt)
		}
	}
	return prompts
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	step, err := s.check(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"type": "error", "error": map[string]string{"type": "invalid_request_error", "message": err.Error()},
		})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": fmt.Sprintf("msg_%02d", s.next), "type": "message", "role": "assistant", "model": "scripted",
		"content": step.Answer, "stop_reason": step.StopReason, "stop_sequence": nil,
		"usage": map[string]int{"input_tokens": 1, "output_tokens": 1},
	})
}

// check compares a request with the next step.
func (s *scripted) check(r *http.Request) (step, error) {
	var request struct {
		Tools    []map[string]any `json:"tools"`
		Messages []struct {
			Role    string `json:"role"`
			Content []any  `json:"content"`
		} `json:"messages"`
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
		return step{}, fmt.Errorf("%s %s is not in the script", r.Method, r.URL.Path)
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		return step{}, err
	}
	if want := []map[string]any{{"type": "memory_20250818", "name": "memory"}}; !reflect.DeepEqual(request.Tools, want) {
		return step{}, fmt.Errorf("tools are %v, want %v", request.Tools, want)
	}
	if s.next == len(s.Steps) {
		return step{}, fmt.Errorf("the script is at its end")
	}
	next := s.Steps[s.next]
	want := next.Results
	if next.Prompt != "" {
		want = []any{map[string]any{"type": "text", "text": next.Prompt}}
	}
	if n := len(request.Messages); n == 0 || (next.Prompt != "") != (n == 1) {
		return step{}, fmt.Errorf("step %d: there are %d messages", s.next+1, n)
	}
	last := request.Messages[len(request.Messages)-1]
	if last.Role != "user" || !reflect.DeepEqual(last.Content, want) {
		got, _ := json.MarshalIndent(last.Content, "", " ")
		return step{}, fmt.Errorf("step %d: the last message is %s", s.next+1, got)
	}
	s.next++
	return next, nil
}

// done says whether the whole script has been played.
func (s *scripted) done() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next == len(s.Steps)
}
