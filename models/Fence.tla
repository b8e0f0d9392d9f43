------------------------------- MODULE Fence -------------------------------
(* Fences of Redlock: a client proposes a number, a node accepts it with its *)
(* vote only if it is larger than all it has accepted, a majority must      *)
(* accept. Too few: one more round with a higher number.                    *)
(*                                                                          *)
(* There is no time here. With Expiry a key may vanish at any moment, so    *)
(* Unique and InRealTime hold however slow anybody is. Without it keys go   *)
(* only by release, so that holds follow one another, and InOrderOfHolds    *)
(* can be asked: it is what the owner check of the second round is for.     *)
EXTENDS Naturals, FiniteSets, Sequences, TLC

CONSTANTS
  Nodes, Attempts,  \* an attempt is a claim: its id is never used again
  Top,              \* the largest number anybody may propose
  Past,             \* nodes begin with any fences up to this: what came before
  Expiry,           \* keys may vanish at any moment
  Losses,           \* how often nodes lose everything
  Ticks,            \* how far the clock of a node may go
  Lead,             \* how far above its clock a node accepts
  Accept,           \* "larger": the rule. "max": keep the larger one, accept all. "incr": own counters
  SecondRound,      \* "owner": the rule. "voters": without looking at the key. "any": at all nodes
  Floor             \* after a loss: "lead": clock + Lead, the rule. "clock", or "zero"

VARIABLES
  key,              \* per node: the attempt that holds its key, or Nobody
  fence,            \* per node: the largest number it accepted
  clock,            \* per node
  phase,            \* per attempt: "new", "first", "second", "held", "over"
  number,           \* per attempt: what it proposes
  voted,            \* per attempt: nodes that were asked and gave their key
  asked,            \* per attempt: nodes that served this round
  accepted,         \* per attempt: nodes that accepted the number of this round
  seen,             \* per attempt: the largest fence it was told of
  before,           \* per attempt: the largest number given out before it began
  losses,
  given             \* attempts in the order in which they were granted

vars == <<key, fence, clock, phase, number, voted, asked, accepted, seen, before, losses, given>>

Nobody == 0
Majority == (Cardinality(Nodes) \div 2) + 1
Largest(S) == IF S = {} THEN 0 ELSE CHOOSE x \in S : \A y \in S : x >= y
Given == {given[i] : i \in DOMAIN given}

Init ==
  /\ key = [n \in Nodes |-> Nobody] /\ fence \in [Nodes -> 0..Past] /\ clock = [n \in Nodes |-> 0]
  /\ phase = [a \in Attempts |-> "new"] /\ number = [a \in Attempts |-> 0]
  /\ voted = [a \in Attempts |-> {}] /\ asked = [a \in Attempts |-> {}]
  /\ accepted = [a \in Attempts |-> {}] /\ seen = [a \in Attempts |-> 0]
  /\ before = [a \in Attempts |-> 0] /\ losses = 0 /\ given = << >>

(* A client's clock is anything: the number it begins with is free. *)
Begin(a) ==
  /\ phase[a] = "new"
  /\ \E t \in 1..Top : number' = [number EXCEPT ![a] = t]
  /\ phase' = [phase EXCEPT ![a] = "first"]
  /\ before' = [before EXCEPT ![a] = Largest({number[b] : b \in Given})]
  /\ UNCHANGED <<key, fence, clock, voted, asked, accepted, seen, losses, given>>

Sensible(n, t) == t <= clock[n] + Lead

(* What node n does with the number of a, once the key is a's (or is not looked at). *)
Judge(a, n) ==
  CASE Accept = "larger" /\ number[a] > fence[n] /\ Sensible(n, number[a]) ->
         /\ fence' = [fence EXCEPT ![n] = number[a]]
         /\ accepted' = [accepted EXCEPT ![a] = @ \cup {n}]
         /\ UNCHANGED <<seen, number>>
    [] Accept = "max" ->
         /\ fence' = [fence EXCEPT ![n] = Largest({@, number[a]})]
         /\ accepted' = [accepted EXCEPT ![a] = @ \cup {n}]
         /\ UNCHANGED <<seen, number>>
    [] Accept = "incr" /\ fence[n] < Top ->
         /\ fence' = [fence EXCEPT ![n] = @ + 1]
         /\ accepted' = [accepted EXCEPT ![a] = @ \cup {n}]
         /\ number' = [number EXCEPT ![a] = Largest({IF accepted[a] = {} THEN 0 ELSE @, fence[n] + 1})]
         /\ UNCHANGED seen
    [] OTHER ->
         /\ seen' = [seen EXCEPT ![a] = Largest({@, fence[n]})]
         /\ UNCHANGED <<fence, accepted, number>>

Vote(a, n) ==
  /\ phase[a] \in {"first", "second", "held"}  \* a vote may come after the grant, and stays
  /\ n \notin asked[a] /\ n \notin voted[a]
  /\ phase[a] = "second" => SecondRound = "any"
  /\ key[n] = Nobody
  /\ key' = [key EXCEPT ![n] = a]
  /\ voted' = [voted EXCEPT ![a] = @ \cup {n}]
  /\ asked' = [asked EXCEPT ![a] = @ \cup {n}]
  /\ IF phase[a] = "held" THEN UNCHANGED <<fence, accepted, seen, number>> ELSE Judge(a, n)
  /\ UNCHANGED <<clock, phase, before, losses, given>>

(* A majority of votes, but the number was too small for some: once more, higher. *)
Raise(a) ==
  /\ phase[a] = "first" /\ Accept = "larger"
  /\ Cardinality(voted[a]) >= Majority /\ Cardinality(accepted[a]) < Majority
  /\ LET t == Largest({number[a], seen[a]}) + 1 IN
       /\ t <= Top
       /\ number' = [number EXCEPT ![a] = t]
  /\ phase' = [phase EXCEPT ![a] = "second"]
  /\ asked' = [asked EXCEPT ![a] = {}] /\ accepted' = [accepted EXCEPT ![a] = {}]
  /\ UNCHANGED <<key, fence, clock, voted, seen, before, losses, given>>

Again(a, n) ==
  /\ phase[a] = "second" /\ n \notin asked[a]
  /\ SecondRound = "any" \/ n \in voted[a]
  /\ SecondRound = "owner" => key[n] = a
  /\ asked' = [asked EXCEPT ![a] = @ \cup {n}]
  /\ Judge(a, n)
  /\ UNCHANGED <<key, clock, phase, voted, before, losses, given>>

Grant(a) ==
  /\ phase[a] \in {"first", "second"}
  /\ Cardinality(accepted[a]) >= Majority /\ Cardinality(voted[a]) >= Majority
  /\ ~Expiry => Cardinality({n \in Nodes : key[n] = a}) >= Majority  \* nothing was lost on the way
  /\ phase' = [phase EXCEPT ![a] = "held"]
  /\ given' = Append(given, a)
  /\ UNCHANGED <<key, fence, clock, number, voted, asked, accepted, seen, before, losses>>

(* Released or given up: node by node, whatever is still on its way. *)
Leave(a) ==
  /\ phase[a] \in {"first", "second", "held"}
  /\ phase' = [phase EXCEPT ![a] = "over"]
  /\ UNCHANGED <<key, fence, clock, number, voted, asked, accepted, seen, before, losses, given>>

Free(n) ==
  /\ key[n] # Nobody
  /\ Expiry \/ phase[key[n]] = "over"
  /\ key' = [key EXCEPT ![n] = Nobody]
  /\ UNCHANGED <<fence, clock, phase, number, voted, asked, accepted, seen, before, losses, given>>

Lose(n) ==
  /\ losses < Losses /\ losses' = losses + 1
  /\ key' = [key EXCEPT ![n] = Nobody]
  /\ fence' = [fence EXCEPT ![n] =
       CASE Floor = "lead" -> clock[n] + Lead [] Floor = "clock" -> clock[n] [] OTHER -> 0]
  /\ UNCHANGED <<clock, phase, number, voted, asked, accepted, seen, before, given>>

Tick(n) ==
  /\ clock[n] < Ticks
  /\ clock' = [clock EXCEPT ![n] = @ + 1]
  /\ UNCHANGED <<key, fence, phase, number, voted, asked, accepted, seen, before, losses, given>>

Next ==
  \/ \E a \in Attempts : Begin(a) \/ Raise(a) \/ Grant(a) \/ Leave(a)
  \/ \E a \in Attempts, n \in Nodes : Vote(a, n) \/ Again(a, n)
  \/ \E n \in Nodes : Free(n) \/ Lose(n) \/ Tick(n)

Spec == Init /\ [][Next]_vars

\* Which node and which attempt it is makes no difference.
Symmetry == Permutations(Nodes) \cup Permutations(Attempts)

Unique == \A a, b \in Given : number[a] = number[b] => a = b
InRealTime == \A a \in Given : number[a] > before[a]
InOrderOfHolds == \A i, j \in DOMAIN given : i < j => number[given[i]] < number[given[j]]
============================================================================
