//! Routing: which server and which namespace a client comes to.

use crate::cgroup::cgroup_of;
use crate::daemon::{Daemon, LaunchError, State};
use crate::v3::NoTenancy;
use crate::v3::endpoints::Chosen;

impl Daemon {
    /// The server and the namespace of a user's client, which came by the socket of `chosen`, or by the daemon's own.
    pub(crate) fn chosen(
        &self,
        state: &mut State,
        chosen: Option<&Chosen>,
        (pid, uid, gid): (u32, u32, u32),
    ) -> Result<Chosen, LaunchError> {
        let user = self.server_user(uid);
        if let Some(chosen) = chosen {
            return match state.tenancy.may_come(chosen, user) {
                Ok(()) => Ok(chosen.clone()),
                Err(NoTenancy::OtherUser { server, owner }) => {
                    let name = crate::users::name;
                    let (owner, user) = (name(owner), name(uid));
                    Err(LaunchError::OtherUsersServer { server, owner, user })
                }
                Err(why) => Err(why.into()),
            };
        }
        if !self.is_v3() {
            return Ok(Chosen::default());
        }
        let cgroup = (pid != 0).then(|| cgroup_of(pid)).flatten();
        let routed =
            cgroup.and_then(|of| state.tenancy.named.of_cgroup(&of, self.cgroup_root(), user));
        if let Some((named, namespace)) = routed {
            return Ok(Chosen { named, namespace, by_main: false });
        }
        let gid = if user == uid { gid } else { 0 };
        self.automatic_server(state, user, gid)
    }

    /// Number of the server that programs of a user come to by the daemon's own socket.
    pub(crate) fn own_server(
        &self,
        state: &mut State,
        uid: u32,
        gid: u32,
    ) -> Result<u32, LaunchError> {
        match self.is_v3() {
            true => self.automatic_server(state, uid, gid).map(|chosen| chosen.named),
            false => Ok(0),
        }
    }
}
