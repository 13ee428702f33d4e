//! What the detector must decide, row by row: sequences that other loop detectors get wrong, and loops that must die.
//!
//! Default settings: window 20, threshold 10, counting `progress`. Healthy sequences are never killed during the whole
//! sequence. The same rows run through a real Envoy where the filter itself matters.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)] // a test fails by panicking

mod common;

use agent_kill_switch::detect::verdict::Verdict;
use common::{Agent, Conversation, Upstream, killed_at, sentence, words};
use serde_json::{Value, json};

fn tool(name: &'static str, arguments: Value, result: impl Into<String>) -> [(&'static str, Value, String); 1] {
    [(name, arguments, result.into())]
}

#[test]
fn row_1_thirty_different_tool_steps_after_one_user_message_are_allowed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Fix the bug in the parser."));
    let names = ["grep", "read_file", "edit", "run", "list_dir"];
    let killed =
        killed_at(30, |n| chat.step(&mut agent, &tool(names[n % 5], json!({"target": sentence(n)}), sentence(n + 50))));
    assert_eq!(killed, None);
}

#[test]
fn row_2_edit_and_run_tests_fifteen_times_with_changing_output_is_allowed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Make the tests pass."));
    let killed = killed_at(30, |n| match n % 2 {
        0 => chat.step(&mut agent, &tool("edit", json!({"path": "a.rs", "new": sentence(n)}), "ok")),
        _ => {
            let output = format!("{} tests failed: {}", 30 - n, sentence(n));
            chat.step(&mut agent, &tool("run", json!({"command": "cargo test"}), output))
        }
    });
    assert_eq!(killed, None);
}

#[test]
fn row_2_the_same_where_only_the_number_of_failures_changes() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Make the tests pass."));
    let killed = killed_at(40, |n| match n % 2 {
        0 => chat.step(&mut agent, &tool("edit", json!({"path": "a.rs", "new": sentence(n)}), "ok")),
        _ => {
            let output = format!("test result: FAILED. {} passed; {} failed; finished in 0.{n}s", 100 + n, 60 - n);
            chat.step(&mut agent, &tool("run", json!({"command": "cargo test"}), output))
        }
    });
    assert_eq!(killed, None);
}

#[test]
fn row_3_polling_ten_times_with_a_changing_result_is_allowed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Deploy and wait."));
    let killed = killed_at(10, |n| {
        let result = json!({"state": "running", "percent": n * 10}).to_string();
        chat.step(&mut agent, &tool("status", json!({}), result))
    });
    assert_eq!(killed, None);
}

#[test]
fn row_4_polling_four_times_with_an_unchanged_result_is_allowed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Deploy and wait."));
    for _ in 0..4 {
        chat.step(&mut agent, &tool("status", json!({}), "pending"));
    }
    assert_eq!(chat.step(&mut agent, &tool("report", json!({}), "done")), Verdict::Allow);
    assert_eq!(agent.highest(), 7.5);
}

#[test]
fn row_5_nine_empty_continue_commands_with_different_results_are_allowed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Debug the crash."));
    assert_eq!(killed_at(9, |n| chat.step(&mut agent, &tool("continue", json!({}), sentence(n)))), None);
}

#[test]
fn row_6_twenty_ranges_of_one_file_are_allowed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Summarise the file."));
    let killed = killed_at(20, |n| {
        let range = json!({"path": "main.rs", "from": n * 40 + 1, "to": n * 40 + 40});
        chat.step(&mut agent, &tool("read_file", range, sentence(n)))
    });
    assert_eq!(killed, None);
    assert_eq!(agent.highest(), 0.0);
}

#[test]
fn row_7_grep_move_and_update_imports_over_twenty_files_is_allowed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Move the modules."));
    let killed = killed_at(60, |n| {
        let file = format!("module_{}.rs", ["auth", "cart", "feed", "mail"][n / 3 % 4].repeat(1 + n / 12));
        match n % 3 {
            0 => chat.step(&mut agent, &tool("grep", json!({"pattern": file}), sentence(n))),
            1 => chat.step(&mut agent, &tool("move", json!({"from": file}), "")),
            _ => chat.step(&mut agent, &tool("update_imports", json!({"of": file}), "updated")),
        }
    });
    assert_eq!(killed, None);
}

#[test]
fn row_8_one_shell_tool_a_hundred_times_with_new_ids_and_results_is_allowed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Process the samples."));
    let killed = killed_at(100, |n| {
        let command = json!({"cmd": format!("process --sample {n}")});
        chat.step(&mut agent, &tool("shell", command, format!("{} quality", sentence(n))))
    });
    assert_eq!(killed, None);
}

#[test]
fn row_9_a_verification_with_the_same_result_among_distinct_calls_is_allowed() {
    for every in [2, 3, 4, 5] {
        let (mut agent, mut chat) = (Agent::new(), Conversation::new("Refactor."));
        let killed = killed_at(150, |n| match n % every {
            0 => {
                chat.step(&mut agent, &tool("run", json!({"command": "make check"}), "all checks passed, no warnings"))
            }
            _ => chat.step(&mut agent, &tool("edit", json!({"n": n, "new": sentence(n)}), sentence(n + 7))),
        });
        assert_eq!(killed, None, "a check every {every} calls");
    }
}

#[test]
fn row_10_thirty_edits_with_the_same_empty_success_are_allowed() {
    for success in ["", "ok", "The file has been edited successfully. Review the changes."] {
        let (mut agent, mut chat) = (Agent::new(), Conversation::new("Rename the field everywhere."));
        let killed = killed_at(30, |n| {
            chat.step(&mut agent, &tool("edit", json!({"path": format!("f{n}.rs"), "new": sentence(n)}), success))
        });
        assert_eq!(killed, None, "{success:?}");
    }
}

#[test]
fn row_11_one_answer_with_a_hundred_similar_functions_or_a_long_table_is_allowed() {
    let functions: String = (0..100).map(|n| format!("fn get_{n}(&self) -> u32 {{ self.field_{n} }}\n")).collect();
    let table: String = (0..200).map(|n| format!("| item {n} | {} | ok |\n", n * 7)).collect();
    let mut agent = Agent::new();
    assert_eq!(agent.chat("Write the getters.", &functions), Verdict::Allow);
    assert_eq!(agent.chat("Now the table.", &table), Verdict::Allow);
    assert_eq!(agent.highest(), 0.0);
}

#[test]
fn row_12_three_files_read_again_after_compaction_three_times_are_allowed() {
    let mut agent = Agent::new();
    let killed = killed_at(3 * 6, |n| {
        // A compacted conversation starts anew.
        let mut chat = Conversation::new(&format!("Summary so far: {}", sentence(n / 6)));
        for back in 0..n % 6 {
            chat.messages.push(json!({"role": "assistant", "content": sentence(back)}));
        }
        let file = ["a.rs", "b.rs", "c.rs"][n % 3];
        match n % 6 {
            0..3 => chat.step(&mut agent, &tool("read_file", json!({"path": file}), format!("contents of {file}"))),
            _ => chat.step(&mut agent, &tool("edit", json!({"path": file, "new": sentence(n)}), sentence(n))),
        }
    });
    assert_eq!(killed, None);
}

#[test]
fn row_13_a_tool_called_once_scores_nothing() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("What time is it?"));
    chat.step(&mut agent, &tool("clock", json!({}), "noon"));
    assert_eq!(agent.call(&chat.body(), words("It is noon.")), Verdict::Allow);
    assert_eq!(agent.highest(), 0.0);
}

#[test]
fn row_14_five_identical_parallel_calls_in_one_answer_count_as_one() {
    let call = ("search", json!({"q": "rust"}), "nothing found".to_owned());
    let (mut five, mut chat) = (Agent::new(), Conversation::new("Search."));
    for _ in 0..3 {
        chat.step(&mut five, &vec![call.clone(); 5]);
    }
    let (mut one, mut single) = (Agent::new(), Conversation::new("Search."));
    for _ in 0..3 {
        single.step(&mut one, std::slice::from_ref(&call));
    }
    assert_eq!(five.last().signals.repeated_tool_calls, 1);
    assert_eq!(five.last().signals.repeated_tool_calls, one.last().signals.repeated_tool_calls);
}

#[test]
fn row_15_twenty_sessions_with_one_template_prompt_are_allowed() {
    for session in 0..20 {
        // With a session header each session has its own window.
        let mut agent = Agent::new();
        assert_eq!(agent.chat("Greet the customer and ask for the order number.", &sentence(session)), Verdict::Allow);
        assert_eq!(agent.chat(&sentence(session + 40), &sentence(session + 80)), Verdict::Allow);
    }
}

#[test]
fn row_16_a_request_retried_three_times_after_server_errors_is_allowed() {
    let mut agent = Agent::new();
    let body = json!({"messages": [{"role": "user", "content": "Translate the report into French."}]});
    for status in [500, 502, 503] {
        assert_eq!(agent.call(&body, Upstream::failure(status)), Verdict::Allow);
    }
    assert_eq!(agent.call(&body, words("Voici le rapport.")), Verdict::Allow);
    assert_eq!(agent.highest(), 3.0);
}

#[test]
fn row_17_server_errors_to_thirty_different_prompts_are_allowed() {
    let mut agent = Agent::new();
    let killed = killed_at(30, |n| {
        agent.call(&json!({"messages": [{"role": "user", "content": sentence(n)}]}), Upstream::failure(500))
    });
    assert_eq!(killed, None);
}

#[test]
fn row_18_the_same_declared_tools_in_every_request_say_nothing() {
    let mut agent = Agent::new();
    let tools = json!([{"type": "function", "function": {"name": "search", "description": "Searches the web."}}]);
    let killed = killed_at(30, |n| {
        let body = json!({"messages": [{"role": "user", "content": sentence(n)}], "tools": tools});
        agent.call(&body, words(&sentence(n + 31)))
    });
    assert_eq!(killed, None);
    assert_eq!(agent.highest(), 0.0);
}

#[test]
fn row_19_a_batch_agent_with_fifty_different_tickets_is_allowed() {
    let mut agent = Agent::new();
    let killed = killed_at(50, |n| {
        let label = ["billing: refund wanted", "login: password lost", "shipping: parcel late"][n % 3];
        agent.chat(&format!("classify ticket {}: {}", 100 + n, sentence(n)), &format!("{label}, {}", sentence(n + 9)))
    });
    assert_eq!(killed, None);
}

#[test]
fn row_19_the_same_with_a_long_template_and_one_word_labels() {
    let template = (0..60).map(sentence).collect::<Vec<_>>().join(". ");
    let mut agent = Agent::new();
    let killed = killed_at(60, |n| {
        let ticket = ["refund", "password", "parcel", "invoice", "login", "delivery", "crash"][n % 7];
        let text = format!("{template}\nTicket {n}: my {ticket} {}", ["is late", "is wrong", "fails"][n % 3]);
        agent.chat(&text, ["billing", "account", "shipping"][n % 3])
    });
    assert_eq!(killed, None);
}

#[test]
fn row_20_thirty_anthropic_calls_with_block_content_are_allowed() {
    let mut agent = Agent::new().at("/v1/messages");
    let mut messages = vec![json!({"role": "user", "content": [{"type": "text", "text": "Fix the build."}]})];
    let killed = killed_at(30, |n| {
        let id = format!("toolu_{n:024}");
        let answer = json!([
            {"type": "text", "text": sentence(n)},
            {"type": "tool_use", "id": id, "name": "bash", "input": {"command": sentence(n + 3)}}
        ]);
        let body = json!({"model": "m", "max_tokens": 10, "messages": messages});
        let reply = json!({"id": format!("msg_{n}"), "type": "message", "role": "assistant", "content": answer});
        let verdict = agent.call(&body, Upstream::json(reply));
        messages.push(json!({"role": "assistant", "content": answer}));
        let result = json!({"type": "tool_result", "tool_use_id": id,
            "content": [{"type": "text", "text": sentence(n + 60)}]});
        messages.push(json!({"role": "user", "content": [result]}));
        verdict
    });
    assert_eq!(killed, None);
    assert_eq!(agent.highest(), 0.0);
}

#[test]
fn row_21_two_requests_in_flight_each_answer_lands_on_its_own_call() {
    let mut agent = Agent::new();
    let ask = |text: &str| json!({"messages": [{"role": "user", "content": text}]});
    let (_, first, format) = agent.ask(&ask("What is the capital of France?"));
    let (_, second, _) = agent.ask(&ask("Who wrote Faust, and when did it appear?"));
    agent.answer(second, format, &words("Goethe wrote it; part one appeared in 1808."));
    agent.answer(first, format, &words("The capital of France is Paris."));
    let mut expected = Agent::new();
    expected.chat("What is the capital of France?", "The capital of France is Paris.");
    expected.chat("Who wrote Faust, and when did it appear?", "Goethe wrote it; part one appeared in 1808.");
    let answers = |agent: &Agent| agent.window.calls().iter().map(|call| call.answer).collect::<Vec<_>>();
    assert_eq!(answers(&agent), answers(&expected));
}

#[test]
fn row_p1_the_same_tool_call_with_the_same_error_is_killed_by_the_seventh() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Read the configuration."));
    let error = "Error: ENOENT: no such file or directory, open '/etc/app.toml'";
    let killed = killed_at(8, |_| chat.step(&mut agent, &tool("read_file", json!({"path": "/etc/app.toml"}), error)));
    assert_eq!(killed, Some(7), "the request that brings the sixth error");
}

#[test]
fn row_p2_results_that_differ_only_in_timestamps_and_ids_are_killed() {
    let (mut agent, mut chat) = (Agent::new(), Conversation::new("Call the service."));
    let killed = killed_at(8, |n| {
        let error = format!(
            "{{\"error\":\"upstream timed out\",\"request_id\":\"{n:08x}-e29b-41d4-a716-446655440000\",\"at\":\"2024-01-15T10:3{n}:00Z\"}}"
        );
        chat.step(&mut agent, &tool("http", json!({"url": "https://example.com/api"}), error))
    });
    assert_eq!(killed, Some(7));
}

#[test]
fn row_p3_alternating_two_and_cycling_three_steps_is_killed() {
    let steps = [
        ("list_dir", json!({"path": "src"}), "main.rs lib.rs config.rs"),
        ("read_file", json!({"path": "src/main.rs"}), "fn main() { run(parse(arguments())) }"),
        ("grep", json!({"pattern": "todo"}), "no matches found in twelve files"),
    ];
    for (cycle, calls) in [(2, 20), (3, 21)] {
        let (mut agent, mut chat) = (Agent::new(), Conversation::new("Find the bug."));
        let killed = killed_at(calls, |n| {
            let (name, arguments, result) = steps[n % cycle].clone();
            chat.step(&mut agent, &tool(name, arguments, result))
        });
        assert!(killed.is_some(), "a cycle of {cycle}");
    }
}

#[test]
fn row_p4_continue_fifteen_times_with_rephrased_answers_is_killed() {
    for prompt in ["Continue...", "Continue. Please keep solving the problem until you need to query."] {
        let (mut agent, mut messages) = (Agent::new(), vec![json!({"role": "user", "content": "Solve it."})]);
        let killed = killed_at(15, |n| {
            messages.push(json!({"role": "assistant", "content": sentence(n)}));
            messages.push(json!({"role": "user", "content": prompt}));
            agent.call(&json!({"messages": messages}), words(&sentence(n + 1)))
        });
        assert_eq!(killed, Some(12), "{prompt}");
    }
}

#[test]
fn row_p5_the_same_limit_error_to_the_same_prompt_twenty_times_is_killed() {
    let mut agent = Agent::new();
    let body = json!({"messages": [{"role": "user", "content": "Summarise the meeting notes."}]});
    assert_eq!(killed_at(20, |_| agent.call(&body, Upstream::failure(429))), Some(12));
}

#[test]
fn row_p6_prompts_that_differ_in_order_numbers_and_timestamps_are_killed_at_the_sixth() {
    for prompt in [
        |n: usize| format!("Where is order #{}? It is 2024-01-15T10:0{n}:00Z.", 10_000 + n * 77),
        |n: usize| format!("Attempt {n}: where is order {}? It is 2024-01-{:02}.", 1000 + n, n + 1),
    ] {
        let mut agent = Agent::new();
        let killed = killed_at(10, |n| agent.chat(&prompt(n), "I am sorry, I cannot find that order in the system."));
        assert_eq!(killed, Some(6));
        assert_eq!(agent.last().value(), 13.0, "5 x 1 + 4 x 2");
        assert_eq!(agent.scores[4].value(), 10.0, "the fifth is exactly at the threshold");
    }
}

#[test]
fn row_p7_the_same_streamed_is_killed_at_the_sixth() {
    type Case = (&'static str, fn(&str) -> Value, &'static str, fn(usize) -> String);
    let openai: Case = (
        "/v1/chat/completions",
        |text| json!({"stream": true, "messages": [{"role": "user", "content": text}]}),
        "text/event-stream",
        |n| {
            let pieces = ["I cannot ", "find that ", "order anywhere."];
            let event = |delta: Value| {
                let chunk = json!({"id": format!("chatcmpl-{n}"), "created": 1_700_000_000 + n,
                    "choices": [{"index": 0, "delta": delta}]});
                format!("data: {chunk}\n\n")
            };
            pieces.iter().map(|piece| event(json!({"content": piece}))).collect::<String>() + "data: [DONE]\n\n"
        },
    );
    let anthropic: Case = (
        "/v1/messages",
        |text| json!({"stream": true, "max_tokens": 9, "messages": [{"role": "user", "content": text}]}),
        "text/event-stream; charset=utf-8",
        |n| {
            let event = |name: &str, mut data: Value| {
                data["type"] = json!(name);
                format!("event: {name}\r\ndata: {data}\r\n\r\n")
            };
            let delta = |text| json!({"index": 0, "delta": {"type": "text_delta", "text": text}});
            event("message_start", json!({"message": {"id": format!("msg_{n}"), "content": []}}))
                + &event("content_block_start", json!({"index": 0, "content_block": {"type": "text", "text": ""}}))
                + &event("content_block_delta", delta("I cannot find "))
                + &event("content_block_delta", delta("that order anywhere."))
                + &event("message_stop", json!({}))
        },
    );
    let ollama: Case = (
        "/api/chat",
        |text| json!({"model": "m", "messages": [{"role": "user", "content": text}]}),
        "application/x-ndjson",
        |n| {
            let line = |text: &str| {
                let at = format!("2024-01-15T10:00:{n:02}Z");
                format!("{}\n", json!({"created_at": at, "message": {"role": "assistant", "content": text}}))
            };
            line("I cannot find ") + &line("that order ") + &line("anywhere.")
        },
    );
    for (path, body, content_type, stream) in [openai, anthropic, ollama] {
        let mut agent = Agent::new().at(path);
        let killed = killed_at(10, |n| {
            let upstream = Upstream { status: 200, content_type, body: stream(n).into_bytes() };
            agent.call(&body(&format!("Where is order #{}?", 4711 + n)), upstream)
        });
        assert_eq!(killed, Some(6), "{path}");
    }
}

#[test]
fn row_p8_forty_identical_requests_at_once_trip_before_any_answer() {
    let mut agent = Agent::new();
    let body = json!({"messages": [{"role": "user", "content": "Charge the customer's card again."}]});
    assert_eq!(killed_at(40, |_| agent.ask(&body).0), Some(12));
}

#[test]
fn row_p9_killed_activated_and_killed_again_at_the_sixth() {
    let mut agent = Agent::new();
    let ask = |agent: &mut Agent| agent.chat("Where is my order?", "I cannot find that order in the system.");
    assert_eq!(killed_at(10, |_| ask(&mut agent)), Some(6));
    agent.activate();
    assert_eq!(killed_at(10, |_| ask(&mut agent)), Some(6));
}

#[test]
fn row_p10_the_same_mcp_call_with_the_same_result_is_killed() {
    let mut agent = Agent::new().at("/mcp");
    let killed = killed_at(8, |n| {
        let params = json!({"name": "get_weather", "arguments": {"city": "Berlin"}});
        let body = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": params});
        let result =
            json!({"content": [{"type": "text", "text": "Service unavailable, please try again."}], "isError": true});
        agent.call(&body, Upstream::json(json!({"jsonrpc": "2.0", "id": n, "result": result})))
    });
    assert_eq!(killed, Some(6));
}

#[test]
fn an_mcp_call_whose_result_changes_is_allowed() {
    let mut agent = Agent::new().at("/mcp");
    let killed = killed_at(30, |n| {
        let body = json!({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "next_page"}});
        let result = json!({"content": [{"type": "text", "text": sentence(n)}]});
        agent.call(&body, Upstream::json(json!({"jsonrpc": "2.0", "id": n, "result": result})))
    });
    assert_eq!(killed, None);
}

#[test]
fn an_agent_that_acts_in_text_is_judged_by_what_came_back() {
    // Commands in the answer's text, results in user messages; a long run of silent commands is work.
    let mut messages = vec![json!({"role": "user", "content": "Fix it."})];
    let mut agent = Agent::new();
    let killed = killed_at(40, |n| {
        let verdict = agent.call(&json!({"messages": messages}), words(&format!("```sed -i {}```", sentence(n))));
        messages.push(json!({"role": "assistant", "content": sentence(n)}));
        let result = if n % 4 == 3 { sentence(n) } else { "<returncode>0</returncode><output></output>".into() };
        messages.push(json!({"role": "user", "content": result}));
        verdict
    });
    assert_eq!(killed, None);
}
