------------------------------ MODULE Redlock ------------------------------
(* Exclusion in Redlock: leases, majorities, extending, nodes that restart  *)
(* empty, clocks that run fast, commands that arrive after their release,   *)
(* clocks that are set, and lists of nodes that differ.                     *)
(*                                                                          *)
(* Time is relative: timers count down on nodes and up at clients, and stop *)
(* where they no longer matter. So there is no horizon, and a search that   *)
(* ends has seen everything that can happen among these few.                *)
(*                                                                          *)
(* A quarantine is counted by the clock of a machine among the clients,     *)
(* which nobody sets. That it begins with the first question, and that the  *)
(* node's own clock has to agree, can only make it longer: both are left    *)
(* out. A clock that jumped ahead and came back has dropped keys, and the   *)
(* node notices: that is a Restart. If it does not, it is one with From     *)
(* = "start".                                                               *)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Nodes, Clients,
  Ttl,
  Votes,        \* how many are needed: a majority
  Margin,       \* by how much a holder stops before the nodes do
  Fast,         \* by how much a node's timer may run ahead over one ttl
  Quarantine,   \* how long a node that lost its data gives no vote
  Restarts,     \* whether nodes may lose their data, at any time and as often as they like
  From,         \* "question": the rule. "start": a server that lost its data may have been up for long
  By,           \* "machine": the rule. "own": by the node's clock, which may be set at any time
  Apart,        \* broken: every client has another list of nodes, with one of them missing
  Extends,      \* whether holders extend
  Late,         \* whether commands arrive after their attempt is over
  Lapsed,       \* broken: an extend may succeed after the validity ended
  SetAnew,      \* broken: an extend counts a node on which it had to set the key anew
  FromAnswer    \* broken: validity counts from the answers, not from the sending

VARIABLES
  key,          \* per node: who has its key: a client, Nobody, or Gone, an attempt that is over
  left,         \* per node: until the key expires
  shut,         \* per node: until it votes again
  late,         \* per node: a command of an attempt that is over is still on its way to it
  phase,        \* per client: "idle", "asking", "held"
  age,          \* per client: since the sending that its validity counts from
  asked,        \* per client: nodes that its command reached
  votes,        \* per client: nodes whose vote it knows of
  extending,    \* per client
  since,        \* per client: since the extend was sent
  again,        \* per client: nodes that the extend reached
  kept,         \* per client: nodes that it counts
  broken        \* per client: another one held while this one believed to go on

vars == <<key, left, shut, late, phase, age, asked, votes, extending, since, again, kept, broken>>
nodes == <<key, left, shut, late>>
extend == <<extending, since, again, kept>>

Nobody == 0
Gone == 99
Symmetry == Permutations(Nodes) \cup Permutations(Clients)
None == [c \in Clients |-> {}]
All(x) == [c \in Clients |-> x]

Init ==
  /\ key = [n \in Nodes |-> Nobody] /\ left = [n \in Nodes |-> 0]
  /\ shut = [n \in Nodes |-> 0] /\ late = [n \in Nodes |-> FALSE]
  /\ phase = All("idle") /\ age = All(0) /\ asked = None /\ votes = None
  /\ extending = All(FALSE) /\ since = All(0) /\ again = None /\ kept = None
  /\ broken = All(FALSE)

Missing == CHOOSE missing \in [Clients -> Nodes] : \A a, b \in Clients : a # b => missing[a] # missing[b]
Knows(c, n) == ~Apart \/ n # Missing[c]

Down(x) == IF x > 0 THEN x - 1 ELSE 0
Up(x) == IF x < Ttl THEN x + 1 ELSE Ttl
InTime(c) == age[c] < Ttl - Margin
Valid(c) == phase[c] = "held" /\ InTime(c)

Tick ==
  /\ left' = [n \in Nodes |-> Down(left[n])]
  /\ key' = [n \in Nodes |-> IF left[n] = 1 THEN Nobody ELSE key[n]]
  /\ shut' = [n \in Nodes |-> Down(shut[n])]
  /\ age' = [c \in Clients |-> IF phase[c] = "idle" THEN 0 ELSE Up(age[c])]
  /\ since' = [c \in Clients |-> IF extending[c] THEN Up(since[c]) ELSE 0]
  /\ UNCHANGED <<late, phase, asked, votes, extending, again, kept, broken>>

Begin(c) ==
  /\ phase[c] = "idle"
  /\ phase' = [phase EXCEPT ![c] = "asking"]
  /\ UNCHANGED <<nodes, age, asked, votes, extend, broken>>

Votable(n) == key[n] = Nobody /\ shut[n] = 0

(* The command reaches a node, before or after the others were enough; its answer may be lost. *)
Reach(c, n) ==
  /\ phase[c] # "idle" /\ n \notin asked[c] /\ Knows(c, n)
  /\ asked' = [asked EXCEPT ![c] = @ \cup {n}]
  /\ IF Votable(n)
     THEN /\ key' = [key EXCEPT ![n] = c]
          /\ \E d \in 0..Fast : left' = [left EXCEPT ![n] = Ttl - d]
          /\ votes' \in {votes, [votes EXCEPT ![c] = @ \cup {n}]}
     ELSE UNCHANGED <<key, left, votes>>
  /\ UNCHANGED <<shut, late, phase, age, extend, broken>>

Win(c) ==
  /\ phase[c] = "asking" /\ Cardinality(votes[c]) >= Votes
  /\ FromAnswer \/ InTime(c)
  /\ phase' = [phase EXCEPT ![c] = "held"]
  /\ age' = [age EXCEPT ![c] = IF FromAnswer THEN 0 ELSE @]
  /\ votes' = [votes EXCEPT ![c] = {}]
  /\ broken' = [o \in Clients |-> IF o = c THEN FALSE ELSE broken[o] \/ phase[o] = "held"]
  /\ UNCHANGED <<nodes, asked, extend>>

(* Released or given up. The releases reach some nodes; a key elsewhere is nobody's until it
   expires, and a command that had not arrived may still do so. *)
Leave(c) ==
  /\ phase[c] # "idle"
  /\ \E freed \in SUBSET {n \in Nodes : key[n] = c} :
       /\ key' = [n \in Nodes |-> IF n \in freed THEN Nobody ELSE IF key[n] = c THEN Gone ELSE key[n]]
       /\ left' = [n \in Nodes |-> IF n \in freed THEN 0 ELSE left[n]]
  /\ \E coming \in IF Late THEN SUBSET (Nodes \ asked[c]) ELSE {{}} :
       late' = [n \in Nodes |-> late[n] \/ n \in coming]
  /\ phase' = [phase EXCEPT ![c] = "idle"] /\ age' = [age EXCEPT ![c] = 0]
  /\ asked' = [asked EXCEPT ![c] = {}] /\ votes' = [votes EXCEPT ![c] = {}]
  /\ extending' = [extending EXCEPT ![c] = FALSE] /\ since' = [since EXCEPT ![c] = 0]
  /\ again' = [again EXCEPT ![c] = {}] /\ kept' = [kept EXCEPT ![c] = {}]
  /\ broken' = [broken EXCEPT ![c] = FALSE]
  /\ UNCHANGED shut

Straggle(n) ==
  /\ late[n]
  /\ late' = [late EXCEPT ![n] = FALSE]
  /\ IF Votable(n)
     THEN key' = [key EXCEPT ![n] = Gone] /\ left' = [left EXCEPT ![n] = Ttl]
     ELSE UNCHANGED <<key, left>>
  /\ UNCHANGED <<shut, phase, age, asked, votes, extend, broken>>

Restart(n) ==
  /\ Restarts
  /\ key' = [key EXCEPT ![n] = Nobody] /\ left' = [left EXCEPT ![n] = 0]
  /\ \E up \in IF From = "start" THEN 0..Quarantine ELSE {0} :
       shut' = [shut EXCEPT ![n] = Quarantine - up]
  /\ UNCHANGED <<late, phase, age, asked, votes, extend, broken>>

(* After a boot with a wrong clock that is the rule: somebody sets it right. *)
SetClock(n) ==
  /\ By = "own" /\ shut[n] > 0
  /\ shut' = [shut EXCEPT ![n] = 0]
  /\ UNCHANGED <<key, left, late, phase, age, asked, votes, extend, broken>>

Ask(c) ==
  /\ Extends /\ phase[c] = "held" /\ ~extending[c] /\ (Lapsed \/ InTime(c))
  /\ extending' = [extending EXCEPT ![c] = TRUE] /\ since' = [since EXCEPT ![c] = 0]
  /\ again' = [again EXCEPT ![c] = {}] /\ kept' = [kept EXCEPT ![c] = {}]
  /\ UNCHANGED <<nodes, phase, age, asked, votes, broken>>

Extend(c, n) ==
  /\ extending[c] /\ n \notin again[c] /\ Knows(c, n)
  /\ again' = [again EXCEPT ![c] = @ \cup {n}]
  /\ LET anew == key[n] # c /\ Votable(n) IN
     IF key[n] = c \/ anew  \* it may always repair, but not always count
     THEN /\ key' = [key EXCEPT ![n] = c]
          /\ \E d \in 0..Fast : left' = [left EXCEPT ![n] = Ttl - d]
          /\ kept' = IF anew /\ ~SetAnew THEN kept ELSE [kept EXCEPT ![c] = @ \cup {n}]
     ELSE UNCHANGED <<key, left, kept>>
  /\ UNCHANGED <<shut, late, phase, age, asked, votes, extending, since, broken>>

Stop(c) ==
  /\ extending' = [extending EXCEPT ![c] = FALSE] /\ since' = [since EXCEPT ![c] = 0]
  /\ again' = [again EXCEPT ![c] = {}] /\ kept' = [kept EXCEPT ![c] = {}]
  /\ UNCHANGED <<nodes, phase, asked, votes, broken>>

Extended(c) ==
  /\ extending[c] /\ Cardinality(kept[c]) >= Votes
  /\ since[c] < Ttl - Margin /\ (Lapsed \/ InTime(c))
  /\ age' = [age EXCEPT ![c] = since[c]]
  /\ Stop(c)

Fail(c) == extending[c] /\ Stop(c) /\ UNCHANGED age

Next ==
  \/ Tick
  \/ \E c \in Clients : Begin(c) \/ Win(c) \/ Leave(c) \/ Ask(c) \/ Extended(c) \/ Fail(c)
  \/ \E c \in Clients, n \in Nodes : Reach(c, n) \/ Extend(c, n)
  \/ \E n \in Nodes : Straggle(n) \/ Restart(n) \/ SetClock(n)

Spec == Init /\ [][Next]_vars

(* Never two who believe to hold, each by its own clock. *)
Exclusion == \A a, b \in Clients : Valid(a) /\ Valid(b) => a = b
(* Who believes to hold has held all the time since its grant. *)
Unbroken == \A c \in Clients : Valid(c) => ~broken[c]
============================================================================
