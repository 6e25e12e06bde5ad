//! The files of the cluster.
//!
//! What is not obvious in them was found by trying: a `gpu` needs device files, any other generic resource may be a bare count; several `slurmd` on one host
//! need `%n` in their paths; `config_overrides` lets a node claim more than the machine has.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::tools;

/// The nodes of the cluster.
pub(crate) const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// Ports on the loopback interface.
pub(super) struct Ports {
    pub(super) controller: u16,
    pub(super) nodes: [u16; NODES.len()],
    pub(super) nats: u16,
}

impl Ports {
    /// Ports that no process uses now.
    pub(super) fn free() -> Result<Self, String> {
        // All are held until all are chosen, so they differ.
        let listeners: Result<Vec<_>, _> =
            (0..NODES.len() + 2).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).collect();
        let ports = listeners.and_then(|listeners| {
            listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<Result<Vec<_>, _>>()
        });
        let ports = ports.map_err(|error| format!("no free ports on the loopback interface: {error}"))?;
        Ok(Self { controller: ports[0], nats: ports[1], nodes: [ports[2], ports[3], ports[4]] })
    }
}

/// Writes all files into `folder`.
pub(super) fn write(folder: &Path, ports: &Ports) -> Result<(), String> {
    for name in ["", "run", "log", "state", "dev", "munge", "nats"] {
        make_dir(&folder.join(name), if name == "munge" { 0o700 } else { 0o755 })?;
    }
    for node in NODES {
        make_dir(&folder.join(format!("spool.{node}")), 0o755)?;
    }
    put(&folder.join("slurm.conf"), &slurm_conf(folder, ports, has_devices(folder))?)?;
    put(&folder.join("gres.conf"), &gres_conf(folder, has_devices(folder)))?;
    put(&folder.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")?;
    let key = folder.join("munge/munge.key");
    let mut bytes = vec![0; 128];
    fs::File::open("/dev/urandom")
        .and_then(|mut random| std::io::Read::read_exact(&mut random, &mut bytes))
        .and_then(|()| fs::write(&key, bytes))
        .and_then(|()| fs::set_permissions(&key, fs::Permissions::from_mode(0o400)))
        .map_err(tools::at(&key))
}

fn make_dir(path: &Path, mode: u32) -> Result<(), String> {
    fs::create_dir_all(path)
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(tools::at(path))
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(tools::at(path))
}

/// Whether the two graphics cards of each node have device files. Only root can make them; without them the nodes have video memory and no cards.
fn has_devices(folder: &Path) -> bool {
    ["gpu0", "gpu1"].iter().all(|name| {
        let path = folder.join("dev").join(name);
        path.exists()
            || Command::new("mknod").arg(&path).args(["c", "1", "3"]).status().is_ok_and(|made| made.success())
    })
}

fn slurm_conf(folder: &Path, ports: &Ports, has_cards: bool) -> Result<String, String> {
    let host = tools::output(Command::new("hostname").arg("-s"))?;
    let user = tools::output(Command::new("id").arg("-un"))?;
    let (host, user, folder) = (host.trim(), user.trim(), folder.display());
    let Ports { controller, nodes, .. } = ports;
    let (kinds, cards) = if has_cards { ("gpu,vram", "gpu:fake:2,") } else { ("vram", "") };
    let mut text = format!(
        "ClusterName=local
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/run/munge.socket
CredType=cred/munge
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=OverMemoryKill
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,sched_interval=1,bf_interval=1,batch_sched_delay=0,default_queue_depth=1000
PriorityType=priority/basic
GresTypes={kinds}
SlurmdParameters=config_overrides
ReturnToService=2
MinJobAge=3600
MaxJobCount=50000
MaxArraySize=10001
KillWait=2
SlurmdTimeout=30
EnforcePartLimits=ALL
Licenses=licence:2
AccountingStorageType=accounting_storage/none
DependencyParameters=kill_invalid_depend
"
    );
    for (node, port) in NODES.iter().zip(nodes) {
        text += &format!(
            "NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=4 RealMemory=4000 Gres={cards}vram:16384 State=UNKNOWN\n"
        );
    }
    Ok(text + "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP DefMemPerCPU=100\n")
}

fn gres_conf(folder: &Path, has_cards: bool) -> String {
    let nodes = NODES.join(",");
    let mut text = String::from("AutoDetect=off\n");
    if has_cards {
        text += &format!("NodeName={nodes} Name=gpu Type=fake File={}/dev/gpu[0-1]\n", folder.display());
    }
    text + &format!("NodeName={nodes} Name=vram Count=16384\n")
}
