//! `/v1/kills/{event_id}`: the story of a kill.

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use super::App;
use super::agents::ScoreView;
use super::extract::PathId;
use super::problem::Result;
use crate::service::{Story, event_id};

#[derive(Serialize)]
pub(super) struct StoryView {
    scores: Vec<ScoreView>,
    #[serde(flatten)]
    story: Story,
}

pub(super) async fn get(State(app): State<App>, PathId(id): PathId) -> Result<Json<StoryView>> {
    let mut story = app.service.story(event_id(&id)?).await?;
    let scores = std::mem::take(&mut story.scores).into_iter().map(ScoreView::from).collect();
    Ok(Json(StoryView { scores, story }))
}
