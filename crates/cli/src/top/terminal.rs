//! The live screen: draws models, reads keys.

use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::source::Models;
use super::state::{Key, State};
use super::view;
use crate::ctl::switch;

/// Shows models, one an interval, until the user quits.
///
/// # Errors
/// Those of the terminal and of the source.
pub fn show(source: &mut dyn Models, state: State, interval: Duration) -> anyhow::Result<()> {
    let mut terminal = ratatui::try_init()?;
    let result = run(&mut terminal, source, state, interval);
    ratatui::restore();
    result
}

fn run(
    terminal: &mut DefaultTerminal,
    source: &mut dyn Models,
    mut state: State,
    interval: Duration,
) -> anyhow::Result<()> {
    let mut model = source.next()?.unwrap_or_default();
    loop {
        let due = Instant::now() + interval;
        loop {
            terminal.draw(|frame| view::draw(&model, &state, frame.area(), frame.buffer_mut()))?;
            let patience = due.saturating_duration_since(Instant::now());
            if !event::poll(patience)? {
                break;
            }
            let Event::Key(key) = event::read()? else {
                continue;
            };
            if key.kind == KeyEventKind::Release {
                continue;
            }
            if is_quit(key) {
                return Ok(());
            }
            if let Some((pid, mechanism)) = state.press(meaning(key), &model) {
                let answer = switch::toggle(pid, mechanism);
                let name = mechanism.name();
                state.message = Some(match answer {
                    Ok(()) => format!("switched {name} in process {pid}"),
                    Err(error) => format!("{error:#}"),
                });
            }
        }
        if !state.is_paused {
            match source.next()? {
                Some(next) => model = next,
                None => {
                    state.is_paused = true;
                    state.message = Some("the record ends here".to_owned());
                }
            }
        }
    }
}

fn is_quit(key: KeyEvent) -> bool {
    let is_interrupt =
        key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
    is_interrupt || key.code == KeyCode::Char('q')
}

fn meaning(key: KeyEvent) -> Key {
    match key.code {
        KeyCode::Up | KeyCode::Char('k') => Key::Up,
        KeyCode::Down | KeyCode::Char('j') => Key::Down,
        KeyCode::Char('s') => Key::Sort,
        KeyCode::Char(' ' | 'p') => Key::Pause,
        KeyCode::Char('y') => Key::Yes,
        KeyCode::Char(digit @ '1'..='9') => Key::Number(digit as u8 - b'0'),
        _ => Key::Other,
    }
}
