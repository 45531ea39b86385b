//! The edge of the app: the terminal, threads, files and signals. Sleeps until something happens.

pub mod jobs;
mod terminal;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select};
use crossterm::event::{Event, KeyEventKind, MouseButton, MouseEventKind};
use recut_core::diagnostic::Diagnostic;
use recut_core::document::Document;

use super::config_file::Content;
use super::hit::HitMap;
use super::keymap::Keymap;
use super::msg::{Effect, JobKind, MouseKind, Msg, Watched};
use super::state::{Setup, State};
use super::update::update;
use super::user_files::UserFiles;
use super::view::view;
use crate::theme::{ColorDepth, Theme, wants_ascii};
use crate::watch::Watcher;
use jobs::Jobs;
use terminal::Screen;

/// What opens the document, on a thread of its own.
pub type Opener = Box<dyn FnOnce() -> anyhow::Result<Opened> + Send>;

/// What was opened.
pub struct Opened {
    /// The model with its config.
    pub document: Document,
    /// Where the config is from.
    pub config: Option<PathBuf>,
    /// What that file held.
    pub content: Option<Content>,
    /// What to say at first.
    pub greeting: Option<String>,
    /// A config beside the model that cannot be used.
    pub problem: Option<Diagnostic>,
}

/// What the app is started with.
pub struct TuiArgs {
    /// The model, for the first screen and the recovery file.
    pub model: PathBuf,
    /// Opens model and config and adds the marks of the command line.
    pub open: Opener,
    /// Theme, instead of the user's.
    pub theme: Option<String>,
    /// Colours, instead of what the environment says.
    pub colors: Option<ColorDepth>,
    /// Only ASCII characters.
    pub ascii: bool,
}

/// Shortest time between two frames.
const FRAME: Duration = Duration::from_millis(16);

/// How long the first frame waits for the model before a screen says that it is being opened.
const PATIENCE: Duration = Duration::from_millis(120);

/// How long files may take to be written at the end.
const GRACE: Duration = Duration::from_secs(3);

/// Exit code where a signal, or the loss of the terminal, ended the app; unsaved edits are in the recovery file then.
const INTERRUPTED: i32 = 130;

/// Runs the app until it is quit; gives the exit code.
///
/// # Errors
/// If there is no terminal, or the model or config cannot be opened.
pub fn run(args: TuiArgs) -> anyhow::Result<i32> {
    terminal::require()?;
    let (loaded_tx, loaded) = bounded(1);
    let open = args.open;
    std::thread::Builder::new().name("open".to_owned()).stack_size(16 << 20).spawn(move || {
        let result = open();
        // Nobody listens any more if the person quit meanwhile.
        let _ = loaded_tx.send(result);
    })?;
    let user = UserFiles::find();
    let env = |name: &str| std::env::var(name).ok();
    let depth = args.colors.unwrap_or_else(|| ColorDepth::from_env(env));
    let ascii = args.ascii || wants_ascii(env);
    let (preferred, complaint) = user.theme_name();
    let name = args.theme.or(preferred).unwrap_or_else(|| "dark".to_owned());
    let (theme, mut warnings) = Theme::load(&name, depth, ascii, &|n| user.theme(n));
    let (keymap, key_warnings) = user.keys().map_or_else(|| (Keymap::default(), Vec::new()), |(f, t)| Keymap::with_user_file(&f, &t));
    warnings.extend(key_warnings);
    warnings.extend(complaint);

    let mut screen = Screen::enter()?;
    let (tx, rx) = bounded(256);
    listen(tx.clone())?;
    let opened = match opening(&mut screen, &theme, &args.model, &loaded, &rx)? {
        Some(opened) => opened,
        None => return Ok(INTERRUPTED),
    };
    let found = user.recovered(&args.model, &opened.document);
    let setup = Setup {
        document: opened.document,
        config_path: opened.config,
        config_content: opened.content,
        recovery_path: found.own,
        recovered: found.recovered,
        outside: opened.problem.into_iter().chain(found.problems).collect(),
        greeting: opened.greeting,
        theme,
        keymap,
        warnings,
        size: screen.size()?,
    };
    let (state, effects) = State::new(setup);
    let app = App { jobs: Jobs::new(tx.clone(), depth, ascii), watcher: watch(&state, &user, tx), state, hits: HitMap::default(), screen };
    app.run(effects, &rx)
}

/// Watches model, config and theme; a system that cannot watch is no reason not to start.
fn watch(state: &State, user: &UserFiles, tx: Sender<Msg>) -> Option<Watcher<Watched>> {
    let mut watcher = Watcher::new(move |what| {
        // The app is gone when nobody listens.
        let _ = tx.send(Msg::Changed(what));
    })
    .ok()?;
    watcher.add(Watched::Model, &state.document.model().path);
    watcher.add(Watched::Config, &state.config_path);
    if let Some(path) = user.theme_path(&state.theme.name) {
        watcher.add(Watched::Theme, &path);
    }
    Some(watcher)
}

/// Threads that wait for the terminal and for signals.
fn listen(tx: Sender<Msg>) -> anyhow::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    // In raw mode Ctrl-C is a key; a SIGINT comes from outside and ends the app like the others.
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let on_signal = tx.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        if signals.forever().next().is_some() {
            let _ = on_signal.send(Msg::Terminate);
        }
    })?;
    std::thread::Builder::new().name("input".to_owned()).spawn(move || {
        loop {
            let msg = match crossterm::event::read() {
                Ok(event) => translate(event),
                // The terminal is gone.
                Err(_) => Some(Msg::Terminate),
            };
            let sent = msg.map_or(Ok(()), |m| tx.send(m));
            if sent.is_err() {
                return;
            }
        }
    })?;
    Ok(())
}

fn translate(event: Event) -> Option<Msg> {
    Some(match event {
        Event::Key(k) if k.kind != KeyEventKind::Release => Msg::Key(k.into()),
        Event::Mouse(m) => {
            let kind = match m.kind {
                MouseEventKind::Down(MouseButton::Left) => MouseKind::Press,
                MouseEventKind::Drag(MouseButton::Left) => MouseKind::Drag,
                MouseEventKind::ScrollUp => MouseKind::WheelUp,
                MouseEventKind::ScrollDown => MouseKind::WheelDown,
                _ => return None,
            };
            Msg::Pointer(kind, m.column, m.row)
        }
        Event::Paste(text) => Msg::Paste(text),
        Event::Resize(w, h) => Msg::Resize(w, h),
        Event::FocusGained => Msg::Focus(true),
        Event::FocusLost => Msg::Focus(false),
        Event::Key(_) => return None,
    })
}

/// Waits for the document; says so on the screen if it takes long. `None` if the person quits meanwhile.
fn opening(
    screen: &mut Screen,
    theme: &Theme,
    model: &std::path::Path,
    loaded: &Receiver<anyhow::Result<Opened>>,
    input: &Receiver<Msg>,
) -> anyhow::Result<Option<Opened>> {
    let begin = Instant::now();
    let name = recut_core::diagnostic::printable_path(model);
    loop {
        select! {
            recv(loaded) -> result => return Ok(Some(result??)),
            recv(input) -> msg => match msg? {
                Msg::Terminate => return Ok(None),
                Msg::Key(k) if k.ctrl && k.typed().is_none() && k.code == crossterm::event::KeyCode::Char('c')
                    || matches!(k.typed(), Some('q')) || k.code == crossterm::event::KeyCode::Esc => return Ok(None),
                _ => {}
            },
            default(PATIENCE) => {
                let seconds = begin.elapsed().as_secs_f32();
                screen.draw(|frame| {
                    let mut p = super::view::Painter::new(frame.buffer_mut(), theme);
                    let area = p.area();
                    p.ground(area);
                    let text = format!("opening {name}  {seconds:.1} s   q quits");
                    p.put(2, area.height / 2, area.width.saturating_sub(4), &text, crate::theme::Role::Text);
                    None
                })?;
            }
        }
    }
}

struct App {
    state: State,
    hits: HitMap,
    screen: Screen,
    jobs: Jobs,
    watcher: Option<Watcher<Watched>>,
}

impl App {
    fn run(mut self, effects: Vec<Effect>, rx: &Receiver<Msg>) -> anyhow::Result<i32> {
        let mut quit = self.execute(effects)?;
        let mut interrupted = false;
        let mut drawn: Option<Instant> = None;
        let mut dirty = true;
        while !quit {
            if dirty && drawn.is_none_or(|d| d.elapsed() >= FRAME) {
                self.draw()?;
                drawn = Some(Instant::now());
                dirty = false;
            }
            let tick = match drawn {
                Some(d) if dirty => crossbeam_channel::after(FRAME.saturating_sub(d.elapsed())),
                _ => never(),
            };
            let wake = self.jobs.wake().clone();
            select! {
                recv(rx) -> msg => {
                    let mut next = Some(msg?);
                    // All that has come in meanwhile is one frame.
                    while let Some(msg) = next.take() {
                        interrupted |= matches!(msg, Msg::Terminate);
                        quit |= self.take(msg)?;
                        dirty = true;
                        next = (!quit).then(|| rx.try_recv().ok()).flatten();
                    }
                }
                recv(wake) -> _ => {
                    if let Some(msg) = self.jobs.take_progress() {
                        quit |= self.take(msg)?;
                        dirty = true;
                    }
                }
                recv(tick) -> _ => {}
            }
        }
        self.jobs.cancel(JobKind::Run);
        drop(self.screen);
        self.jobs.finish(GRACE, rx);
        Ok(if interrupted { INTERRUPTED } else { 0 })
    }

    fn take(&mut self, msg: Msg) -> anyhow::Result<bool> {
        if let Msg::Job(id, event) = &msg {
            self.jobs.news(*id, event);
        }
        let msg = match msg {
            Msg::Pointer(kind, x, y) => Msg::Mouse(kind, self.hits.at(x, y)),
            other => other,
        };
        let effects = update(&mut self.state, msg);
        self.execute(effects)
    }

    fn draw(&mut self) -> anyhow::Result<()> {
        let size = self.screen.size()?;
        if size != self.state.size {
            let effects = update(&mut self.state, Msg::Resize(size.0, size.1));
            self.execute(effects)?;
        }
        let state = &self.state;
        let mut hits = HitMap::default();
        self.screen.draw(|frame| {
            hits = view(state, frame.buffer_mut());
            hits.cursor
        })?;
        self.hits = hits;
        Ok(())
    }

    /// Does what the update asked for; says whether to end.
    fn execute(&mut self, effects: Vec<Effect>) -> anyhow::Result<bool> {
        let mut quit = false;
        for effect in effects {
            match effect {
                Effect::Start(id, request) => self.jobs.start(id, request),
                Effect::Cancel(kind) => self.jobs.cancel(kind),
                Effect::Copy(text) => self.screen.copy(&text)?,
                Effect::WatchConfig(path) => {
                    if let Some(w) = &mut self.watcher {
                        w.add(Watched::Config, &path);
                    }
                }
                Effect::Quit => quit = true,
            }
        }
        Ok(quit)
    }
}
