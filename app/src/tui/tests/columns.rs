//! Data columns of the file beside the nodes.

use recut_core::columns::{Column, ColumnData};

use super::super::msg::{Effect, JobEvent, JobOutput, Msg, Watched};
use super::super::state::Heat;
use super::super::update::update;
use super::*;

fn with_columns() -> Imported {
    let mut imported = model();
    let n = imported.model.graph.nodes().len();
    let numbers = (0..n).map(|i| (i != 1).then_some(i as f64 * 1.5)).collect();
    let texts = (0..n).map(|i| Some(if i % 2 == 0 { "npu" } else { "cpu\u{1b}[2J" }.into())).collect();
    imported.model.columns = vec![
        Column { name: "latency".into(), unit: Some("us".into()), data: ColumnData::Numbers(numbers) },
        Column { name: "device".into(), unit: None, data: ColumnData::Texts(texts) },
    ];
    imported
}

#[test]
fn the_detail_pane_has_every_column_of_the_node() {
    let mut app = App::with(with_columns(), 200, 50);
    app.keys("G k");
    assert_eq!(app.state.current_node(), Some(recut_core::graph::NodeId(7)));
    let text = app.text();
    assert!(app.line("latency").contains("10.5 us"), "{text}");
    assert!(app.line("device").contains("cpu\\u{1b}[2J"), "{text}");
}

#[test]
fn a_column_is_chosen_by_command_and_by_key() {
    let mut app = App::with(with_columns(), 200, 50);
    app.keys(": column space latency enter");
    assert_eq!(app.state.heat, Heat::Column(0));
    assert!(app.notice().contains("latency (us)"), "{}", app.notice());
    // Node 7 of 8, the largest, is hottest.
    assert!(app.row(" head  ").contains("10.5"), "{}", app.text());
    assert_eq!(app.state.heat_of(recut_core::graph::NodeId(7)), Some(1.0));
    assert_eq!(app.state.heat_of(recut_core::graph::NodeId(1)), None);
    assert!(!app.row(" conv0  ").contains("1.5"), "{}", app.text());
    // Numbers stand under each other.
    let end = |row: &str, number: &str| row[..row.find(number).unwrap()].chars().count() + number.len();
    assert_eq!(end(&app.row(" head  "), "10.5"), end(&app.row(" relu1  "), "7.5"));
    app.keys("H");
    assert_eq!(app.state.heat, Heat::Column(1));
    assert!(app.row(" head  ").contains("cpu\\u{1b}[2J"), "{}", app.text());
    app.keys("H");
    assert_eq!(app.state.heat, Heat::Placement);
    app.keys(": column space x enter");
    assert!(app.notice().contains("no column `x`: there are latency, device"), "{}", app.notice());
}

fn reload(app: &mut App, imported: Imported) {
    let effects = update(&mut app.state, Msg::Changed(Watched::Model));
    let Some(Effect::Start(id, _)) = effects.into_iter().next() else { panic!("no reload") };
    update(&mut app.state, Msg::Job(id, JobEvent::Done(JobOutput::Model(Box::new(imported)))));
}

#[test]
fn a_reloaded_model_shows_the_column_of_that_name() {
    let mut app = App::with(with_columns(), 160, 40);
    app.keys(": column space device enter");
    let mut again = with_columns();
    again.model.columns.reverse();
    reload(&mut app, again);
    assert_eq!(app.state.heat, Heat::Column(0));
    reload(&mut app, model());
    assert_eq!(app.state.heat, Heat::Placement);
}
