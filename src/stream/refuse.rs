//! The refusal of a request, worded for the API that its client speaks.
//!
//! Usually the path tells which API that is. Where it does not, the body is waited for.

use super::request::RequestHeaders;
use super::{Flow, Phase, Stream, VERDICT_PROPERTY};
use crate::config::{Hold, InactiveReply};
use crate::decode::envelope::{self, Envelope};
use crate::decode::format::{by_path, errors_by_path};
use crate::host::StreamHost;
use crate::identity::is_agent_id;
use crate::metrics::{Metric, Outcome};
use crate::reply::{Cause, Refusal};
use crate::turn::Format;

/// The longest body that is waited for before its request is refused. HTTP/1.1 closes the connection of a request that is
/// answered before it has ended.
const MAX_AWAITED_BYTES: usize = 64 * 1024;

impl Stream {
    /// Refuses at once if the path tells the client's API and the body is long, and otherwise when the body is complete.
    pub(super) fn refuse_when_known(
        &mut self,
        host: &impl StreamHost,
        cause: Cause,
        outcome: Outcome,
        headers: &RequestHeaders,
    ) -> Flow {
        let hold = self.worker.config.hold;
        let is_short = headers.content_length.is_some_and(|length| length <= MAX_AWAITED_BYTES);
        // The body of an upgrade or of a gRPC stream may never end.
        let at_once = headers.ended || headers.not_http || (self.path_is_enough() && (!is_short || hold == Hold::Body));
        if at_once {
            return self.refuse_by_path(host, cause, outcome);
        }
        host.count(Metric::Requests(outcome), 1);
        self.phase = Phase::Refuse(cause);
        match hold {
            Hold::Headers => Flow::Hold,
            // The upstream sees the headers of the request, and then that it is given up.
            Hold::Body => Flow::Continue,
        }
    }

    /// Refuses a request whose body is not needed.
    pub(super) fn refuse_by_path(&mut self, host: &impl StreamHost, cause: Cause, outcome: Outcome) -> Flow {
        host.count(Metric::Requests(outcome), 1);
        self.refuse(host, cause, &envelope::from_path(&self.path))
    }

    /// Refuses a request whose body is complete.
    pub(super) fn refuse_complete(&mut self, host: &impl StreamHost, cause: Cause) -> Flow {
        let envelope = match self.path_is_enough() {
            true => envelope::from_path(&self.path),
            false => envelope::read(&self.path, &self.whole_body(host)),
        };
        self.refuse(host, cause, &envelope)
    }

    /// Whether the path alone tells how to word a refusal.
    fn path_is_enough(&self) -> bool {
        self.worker.config.inactive_reply == InactiveReply::Error && by_path(self.path.as_bytes()).is_some()
    }

    /// Sends the refusal.
    #[cold]
    pub(super) fn refuse(&mut self, host: &impl StreamHost, cause: Cause, envelope: &Envelope) -> Flow {
        self.phase = Phase::Pass;
        // Malformed ids are not reported: they would use up room in the report.
        if let Some(agent_id) = self.agent_id.as_ref().filter(|id| is_agent_id(id.as_bytes())) {
            self.worker.observations.borrow_mut().count_refusal(agent_id);
        }
        let style = self.worker.config.inactive_reply;
        // The body of a request to Bedrock may be that of any model. The errors are always Bedrock's.
        let is_error = style == InactiveReply::Error || !envelope.is_call;
        let is_bedrock = is_error && errors_by_path(&self.path) == Some(Format::Bedrock);
        let reply = Refusal {
            format: if is_bedrock { Format::Bedrock } else { envelope.format },
            delivery: envelope.delivery,
            json_rpc_id: envelope.json_rpc_id.as_deref(),
            model: envelope.model.as_deref(),
            is_call: envelope.is_call,
            agent_id: self.agent_id.as_deref(),
            cause,
            style,
            dashboard_url: self.worker.config.dashboard_url.as_deref(),
            at_ms: host.now_ms(),
        }
        .reply_to_batch(&envelope.batch_ids);
        host.set_property(VERDICT_PROPERTY, reply.details);
        host.reply(&reply);
        Flow::Hold
    }
}
