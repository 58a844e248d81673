//! One call of one response: by gRPC, or in JSON through the gateway.

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use super::answer::{EtcdAnswer, outcome};
use super::json;
use super::side::{Served, Side};

impl Side {
    /// Makes a call as the caller of the step; `mask` leaves out what may differ, and sees every answer.
    pub(super) async fn call<Q, A>(
        &mut self,
        at: usize,
        method: &'static str,
        request: Q,
        mask: impl FnOnce(&mut Side, &mut A),
    ) -> Served
    where
        Q: Message + 'static,
        A: EtcdAnswer + Message + Default + 'static,
    {
        match json::call_of(method).filter(|_| self.speaks_json) {
            Some(call) => {
                let token = self.token.clone();
                let authority = self.authority(at);
                let answer = json::post(&authority, call, &request, token.as_deref()).await?;
                if let Some(mut message) = answer.message::<A>(call)? {
                    mask(self, &mut message);
                }
                Ok(answer.outcome(call, &self.leases))
            }
            None => {
                let request = self.asked(request)?;
                let channel = self.channel(at);
                let mut client = Grpc::new(channel).max_decoding_message_size(usize::MAX);
                client.ready().await.map_err(|error| error.to_string())?;
                let path = PathAndQuery::from_static(method);
                let codec = ProstCodec::<Q, A>::default();
                let answer = client.unary(request, path, codec).await;
                Ok(outcome(answer, |message| mask(self, message)))
            }
        }
    }

    /// A request with the token of the caller.
    pub(super) fn asked<M>(&self, message: M) -> Result<Request<M>, String> {
        with_token(message, self.token.as_deref())
    }
}

/// A request that shows a token, if there is one.
pub(super) fn with_token<M>(message: M, token: Option<&str>) -> Result<Request<M>, String> {
    let mut request = Request::new(message);
    if let Some(token) = token {
        let token = token.parse();
        let token = token.map_err(|_| Status::internal("a token is no text").to_string())?;
        request.metadata_mut().insert(TOKEN, token);
    }
    Ok(request)
}

/// Where etcd's clients put their tokens.
const TOKEN: &str = "token";
