"""Words that nobody mistypes by accident: who asks for one of them means it, though no memory has it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kingly_memory.retrieval.forms import is_irregular
from kingly_memory.writing import STOP_WORDS

_WORDS = frozenset(
    """
    ability able abroad absence absent absolute abstract academic accept access accident accommodate accompany
    accord according account accurate accuse achieve acid acknowledge acquire across act action active activity
    actor actual actually adapt add addition address adequate adjust admin administration admire admit adopt adult
    advance advantage adventure advertise advice advise affair affect afford afraid afternoon again age agency
    agenda agent aggressive ago agree agreement ahead aid aim air aircraft airline airport alarm album alcohol alert
    alike alive allow almost alone along already alter alternative although always amaze amazing ambition amend
    among amount analyse analysis analyze ancient angel anger angle angry animal anniversary announce annoy annual
    another answer anxiety anxious anybody anymore anyone anything anyway anywhere apart apartment apologize apology
    apparent apparently appeal appear appearance apple application apply appoint appointment appreciate appreciation
    approach appropriate approval approve approximate april architect architecture archive area argue argument arm
    army around arrange arrangement array arrest arrival arrive arrow art article artist artistic aside asleep
    aspect assemble assess assessment asset assign assignment assist assistance assistant associate association
    assume assumption assure athlete atmosphere attach attack attempt attend attendance attention attitude attract
    attraction attractive attribute audience audio audit audition august aunt author authority auto automate
    automated automatic autumn available average avoid await award aware away awesome awful awkward baby back
    background backup backward bacon bad badly bag bake balance ball ban band bank banner bar bare barely bargain
    barn barrier base basement basic basically basis basket bass batch bath bathroom battery battle beach bean bear
    beard beast beat beautiful beauty bed bedroom bee beef beer beg behave behavior behaviour behind belief believe
    bell belong beloved below belt bench bend benefit berry beside besides best bet better beyond bicycle bid big
    bike bill bin binary bird birth birthday biscuit bitter bizarre black blame blank blanket blast bleed blend
    bless blind block blog blood bloom blouse blow blue blues board boast boat body boil bold bomb bond bone bonus
    book bookcase bookmark bookshelf boost boot border boring born borrow boss both bother bottle bottom bounce
    bound boundary bowl box boy brain branch brand brave bread break breakdown breakfast breast breath breathe breed
    breeze brick bride bridge brief briefly bright brilliant bring broad broadcast brother brown browse browser
    brush bubble buck bucket buddy budget buffer bug build builder building bulb bulk bullet bundle burden bureau
    burn burst bus bush business busy butter butterfly button buy buyer buzz cabin cabinet cable cache cafe cage
    cake calculate calculation calendar call calm camera camp campaign campus cancel cancer candidate candle candy
    cap capable capacity capital captain capture car carbon card cardboard care career careful carefully cargo
    carpet carriage carrot carry cart cartoon case cash cast castle casual cat catch category cater cattle cause
    caution cave ceiling celebrate celebration celebrity cell cellar cement cent center central centre century
    ceremony certain certainly certificate chain chair chairman challenge chamber champion championship chance
    change channel chaos chapter character characteristic charge charity charm chart chase chat cheap cheat check
    cheek cheer cheerful cheese chef chemical chemist chemistry chest chicken chief child childhood chip chocolate
    choice choir choose chop chorus christmas church cigarette cinema circle circuit circumstance circus cite
    citizen city civil claim clarify clarity clash class classic classical classroom clean clear clearly clerk
    clever click client cliff climate climb clinic clip clock clone close closely closet cloth clothes clothing
    cloud club clue cluster coach coal coast coat code coffee coin cold collapse collar colleague collect collection
    collector college color colour column combination combine come comedy comfort comfortable comic command comment
    commerce commercial commission commit commitment committee common commonly communicate communication community
    company compare comparison compete competition competitive compile complain complaint complete completely
    completion complex complicate complicated component compose composer compound comprehensive compress compression
    compute computer concentrate concept concern concert conclude conclusion concrete condition conduct conductor
    conference confess confidence confident config configuration configure confirm conflict confuse confusion
    congratulate connect connection conscious consequence conservative consider considerable consist consistent
    console constant constantly constitute constraint construct construction consult consume consumer contact
    contain container contemporary content contest context continent continue continuous contract contrast
    contribute contribution control convenient convention conversation convert convey convince cook cookie cool
    cooperate cooperation coordinate cope copper copy core corn corner corporate corporation correct correction
    correctly correspond corridor cost costume cottage cotton couch cough council counsel counseling counselor count
    counter country county couple courage course court cousin cover cow crack craft crash crawl crazy cream create
    creation creative creature credit crew crime criminal crisis criterion critic critical criticism criticize crop
    cross crowd crown crucial crude cruel cruise crush cry crystal cue cultural culture cup cupboard cure curious
    currency current currently curriculum curse curtain curve cushion custom customer cut cute cycle daily damage
    damp dance dancer danger dangerous dare dark dashboard data database date daughter dawn day dead deadline deaf
    deal dealer dear death debate debt debug decade december decent decide decision deck declare decline decorate
    decoration decrease dedicate deep deeply default defeat defence defend defense deficit define definite
    definitely definition degree delay delete deliberate delicate delicious delight deliver delivery demand
    democracy demonstrate demonstration dense dentist deny depart department departure depend dependency deploy
    deployment deposit depress depression depth derive descend describe description desert deserve design designer
    desire desk desktop despair desperate despite dessert destination destroy destruction detail detect detective
    detector determination determine develop developer development device devote diagram dialog dialogue diamond
    diary dictionary diet differ difference different difficult difficulty dig digest digital dignity dimension
    dinner dip direct direction directly director directory dirt dirty disable disabled disagree disappear
    disappoint disaster disc discipline discount discover discovery discuss discussion disease dish disk dislike
    dismiss display dispute dissolve distance distant distinct distinguish distribute distribution district disturb
    dive diverse divide division divorce doctor document documentation dog doll dollar domain domestic dominate
    donate donation done door dose dot double doubt download downstairs downtown dozen draft drag drama dramatic
    draw drawer drawing dream dress drink drive driver drop drought drug drum dry duck due dull dumb dump duplicate
    duration dust duty dying dynamic each eager ear early earn earth earthquake ease easily east eastern easy eat
    echo economic economy edge edit edition editor educate education educational effect effective effectively
    efficiency efficient effort egg eight eighteen eighty either elaborate elbow elder elderly elect election
    electric electricity electronic elegant element elementary elephant elevator eleven eliminate elite else
    elsewhere email embarrass embed embrace emerge emergency emotion emotional emphasis emphasize empire employ
    employee employer employment empty enable enabled encounter encourage encrypt encrypted encryption end endless
    endpoint enemy energy enforce engage engagement engine engineer engineering english enhance enjoy enjoyable
    enormous enough enroll ensure enter enterprise entertain entertainment enthusiasm entire entirely entitle entity
    entrance entry envelope environment environmental envy episode equal equally equation equip equipment equivalent
    era erase error escape especially essay essential essentially establish estate estimate eternal ethic evaluate
    evaluation even evening event eventually ever every everybody everyday everyone everything everywhere evidence
    evil evolution evolve exact exactly exam examination examine example exceed excellent except exception excess
    exchange excite excited excitement exciting exclude exclusive excuse execute execution executive exercise
    exhaust exhibit exhibition exist existence exit exotic expand expansion expect expectation expense expensive
    experience experiment experimentation expert expertise expire explain explanation explicit explode exploit
    exploration explore export expose exposure express expression extend extension extensive extent external extra
    extract extraordinary extreme extremely eye fabric facade face facility fact factor factory fade fail failure
    faint fair fairly faith fall false fame familiar family famous fan fancy fantastic fantasy far fare farm farmer
    fascinate fashion fast fat fate father fault favor favorite favour favourite fear feather feature february
    federal fee feed feedback feel fellow female fence festival fetch fever fiber fiction field fierce fifteen fifth
    fifty fight figure file fill film filter final finally finance financial find fine finger finish fire firm
    firmly first fish fishing fit fitness five fix flag flame flash flat flavor flavour flaw flesh flexible flight
    float flood floor flour flow flower fluid fly focus fold folder folk follow food fool foot football forbid force
    forecast foreign forest forever forget forgive fork form formal format former formula forth fortunate fortune
    forty forum forward foundation founder fountain four fourteen fourth fox fraction fragile fragment frame
    framework frank free freedom freeze freight frequency frequent frequently fresh friday fridge friend friendly
    friendship frighten frog front frontier frost frozen fruit frustrate fry fuel fulfil fulfill full fully fun
    function fund fundamental fundraiser funeral funny fur furniture further future gain gallery gamble game gang
    gap garage garbage garden gardener garlic gas gate gather gaze gear gender gene general generally generate
    generation generator generous genius genre gentle gentleman genuine genuinely german gesture ghost giant gift
    gig girl give glad glance glass global globe gloom glory glove glue goal goat god gold golden golf good goods
    govern government governor grab grace grade gradual gradually graduate graduation grain grammar grand
    grandfather grandma grandmother grandpa grandparent grant graph graphic grass grateful gratitude grave gravity
    gray grease greasy great greatly green greet grey grief grill grin grip grocery ground group grow growth
    guarantee guard guess guest guidance guide guideline guilt guilty guitar gun guy habit hair half hall ham hammer
    hand handbook handful handle handler handy hang happen happily happiness happy harbor harbour hard hardly
    hardware harm harmony harsh harvest hat hate haul head headache headline headquarters heal health healthy hear
    heart heat heaven heavily heavy heel height helicopter hell hello helmet help helpful hence herb hero hesitate
    hidden hide high highlight highly highway hike hill himself hint hip hire historian historic historical history
    hit hobby hold hole holiday hollow holy home homework honest honey honor honour hook hope hopeful horizon
    horrible horror horse hose hospital host hostel hostile hot hotel hour hourly house household housing however
    hug huge human humble humid humor humour hundred hunger hungry hunt hurry hurt husband hut hybrid ice icon idea
    ideal identical identify identity ignore ill illegal illness illustrate image imaginary imagination imagine
    imitate immediate immediately immigrant impact impatient implement implementation implication imply import
    importance important impose impossible impress impression impressive improve improvement inch incident include
    income incorporate incorrect increase incredible incredibly indeed independence independent index indicate
    indication individual indoor industrial industry inevitable infant infect infection infer infinite influence
    inform informal information infrastructure ingredient inherit initial initially initiative inject injure injury
    ink inn inner innocent innovation input inquiry insect insert inside insight insist inspect inspection inspector
    inspiration inspire install installation instance instant instantly instead instinct institute institution
    instruct instruction instrument insurance insure integer integrate integration integrity intellectual
    intelligence intelligent intend intense intent intention interact interaction interest interested interesting
    interface interior internal international internet interpret interrupt interval interview introduce introduction
    invade invalid invent invention inventory invest investigate investigation investment investor invisible
    invitation invite invoice involve inward iron irony island isolate isolation issue item jacket jail jam january
    jar jaw jazz jealous jeans jewel jewelry job join joint joke journal journalist journey joy judge judgment juice
    july jump junction june jungle junior jury justice justify keen keep kernel kettle key keyboard kick kidney kill
    kind king kingdom kiss kitchen kite knee knife knit knock knot know knowledge label labor laboratory labour lack
    ladder lady lake lamb lamp land landing landlord landscape lane language laptop large largely last late lately
    latency later latest latter laugh laughter launch laundry law lawn lawyer layer layout lazy lead leader
    leadership leading leaf league leak lean leap learn learning lease least leather leave lecture ledger left leg
    legacy legal legend leisure lemon lend length less lesson let letter level liberty library license lie life lift
    light lighting lightning like likely likewise limb limit limitation line linear link lion lip liquid list listen
    literally literary literature little live lively living load loan local locate location lock log logic logical
    login logo lonely long longer look loop loose lord lose loss lost lot loud love lovely lover low lower loyal
    luck lucky luggage lunch lung luxury machine machinery mad magazine magic magical magnet mail mailbox main
    mainly maintain maintenance major majority make makeup male mall manage management manager manner manual
    manufacture manufacturer many map march margin marine mark marker market marketing marriage marry mask mass
    massive master match mate material math mathematics matrix matter mature maximum maybe mayor meal mean meaning
    meanwhile measure measurement meat mechanic mechanical mechanism medal media medical medication medicine
    meditate medium meet meeting melody melt member membership memory mental mention mentor menu merchant mercy mere
    merely merge merit merry mess message metadata metal meter method metre metric middle midnight might migrate
    migration mild mile military milk mill million mind mine mineral minimum minister minor minority mint minus
    minute miracle mirror misery miss missing mission mistake mix mixture mobile mode model moderate modern modest
    modify module moment monday money monitor monkey monster month monthly mood moon moral morning mortgage mostly
    mother motion motivate motivation motive motor mount mountain mouse mouth move movement movie much mud multiple
    multiply murder muscle museum music musical musician must mutual mysterious mystery myth nail naked name namely
    narrow nasty nation national native natural naturally nature near nearby nearly neat necessarily necessary neck
    necklace need needle negative neglect negotiate negotiation neighbor neighborhood neighbour neither nerve
    nervous nest net network neutral never nevertheless new newer newest newly news newspaper next nice night
    nightmare nine nineteen ninety nobody nod node noise noisy none nonsense noon normal normally north northern
    nose note notebook nothing notice notification notify notion novel november nowhere nuclear number numerous
    nurse nut oak obey object objection objective obligation observation observe obstacle obtain obvious obviously
    occasion occasional occasionally occupation occupy occur ocean october odd odds offence offend offense offer
    office officer official offline often oil okay old older omit once one onion online only onto open opening
    openly opera operate operation operator opinion opponent opportunity oppose opposite opposition option optional
    orange orchestra order ordinary organ organic organisation organise organization organize origin original
    originally orphan others otherwise ought ourselves outcome outdoor outer outfit outline output outside
    outstanding oven overall overcome overlap overlook overnight override overseas overview owe own owner ownership
    oxygen pace pack package packet page pain painful paint painter painting pair palace pale palm pan panel panic
    pants paper paragraph parallel parameter parcel pardon parent park parking parliament parrot parse part partial
    participant participate particle particular particularly partly partner partnership party pass passage passenger
    passion passionate passive passport password past paste pastry patch path patience patient pattern pause pay
    payment peace peaceful peak pear peculiar peek peel peer pen penalty pencil penny pension people pepper percent
    percentage perfect perfectly perform performance performer perhaps period permanent permission permit persist
    person personal personality personally perspective persuade pet petrol phase phenomenon philosophy phone photo
    photograph photographer photography phrase physical physically physician physics piano pick picnic picture pie
    piece pig pigeon pile pill pillow pilot pin pinch pine pink pint pipe pipeline pitch pity pizza place plain plan
    plane planet planner plant plaster plastic plate platform play player playlist pleasant please pleased pleasure
    plenty plot plug plumber plus pocket poem poet poetry point poison pole police policeman policy polish polite
    political politician politics poll pollution pond pool poor pop popular popularity population port portable
    portion portrait pose position positive possess possession possibility possible possibly post postcard poster
    postpone pot potato potential potentially pottery pound pour poverty powder power powerful practical practically
    practice practise praise pray prayer precious precise precisely predict prediction prefer preference pregnant
    preparation prepare presence present presentation preserve president press pressure presumably pretend pretty
    prevent preview previous previously price pride priest primarily primary prime prince princess principal
    principle print printer prior priority prison prisoner privacy private privilege prize probability probable
    probably problem procedure proceed process processor produce producer product production profession professional
    professor profile profit program programme programmer progress prohibit project prominent promise promote
    promotion prompt proof proper properly property proportion proposal propose prospect protect protection protein
    protest protocol proud prove provide provider province provision psychology pub public publication publicity
    publish publisher pull pump punch punish punishment pupil puppy purchase pure purple purpose purse pursue push
    put puzzle qualification qualify quality quantity quarrel quarter queen query question queue quick quickly quiet
    quietly quilt quit quite quiz quota quotation quote rabbit race racing radical radio rail railroad railway rain
    rainbow raise random range rank rapid rapidly rare rarely rate rather ratio rational raw reach react reaction
    read reader readily reading ready real realise realistic reality realize really rear reason reasonable rebuild
    recall receipt receive recent recently reception recipe reckon recognise recognition recognize recommend
    recommendation record recorder recording recover recovery recruit recycle red reduce reduction refer reference
    reflect reflection reform refresh refrigerator refund refuse regard regarding regardless region regional
    register registration regret regular regularly regulation reject relate relation relationship relative
    relatively relax relaxation release relevant reliable relief relieve religion religious reload rely remain
    remainder remark remarkable remember remind reminder remote removal remove rename render renew renovate rent
    rental repair repeat repeatedly replace replacement reply report reporter repository represent representation
    representative reproduce republic reputation request require requirement rescue research researcher reservation
    reserve reset resident resign resist resistance resolution resolve resort resource respect respond response
    responsibility responsible rest restaurant restore restrict restriction result resume retail retain retire
    retirement retreat retrieve retry return reveal revenue reverse review revise revision revolution reward rhythm
    rib ribbon rice rich rid ride rider ridge ridiculous rifle right ring riot ripe rise risk ritual rival river
    road roast rob robot rock rocket role roll romance romantic roof room root rope rose rotate rotation rough
    roughly round route router routine row royal rub rubber rubbish ruby rude rug ruin rule ruler rumor run runner
    runtime rural rush sack sacred sacrifice sad saddle sadly safe safely safety sail sailor sake salad salary sale
    salmon salon salt sample sand sandwich satellite satisfaction satisfy saturday sauce sausage save saving scale
    scan scandal scar scare scared scarf scatter scenario scene scenery scent schedule scheduler scheme scholar
    scholarship school science scientific scientist scissors scope score scratch scream screen screenshot screw
    script sculpture sea seal search season seasonal seat second secondary secret secretary section sector secure
    security seed seek seem segment seize seldom select selection self selfish sell seller senate send senior
    sensation sense sensible sensitive sentence sentiment separate separately september sequence series serious
    seriously servant serve server service session set setting settle settlement setup seven seventeen seventy
    several severe severity sew sex shade shadow shake shall shallow shame shape share sharp shave shed sheep sheet
    shelf shell shelter shift shine shiny ship shipment shipping shirt shock shoe shoot shop shopping shore short
    shortage shortly shot shoulder shout shovel show shower shrug shut shy sibling sick side sidewalk sigh sight
    sign signal signature significance significant silence silent silk silly silver similar similarly simple simply
    simulate simulation since sincere sing singer single sink sister sit site situate situation six sixteen sixth
    sixty size skate sketch ski skill skin skip skirt sky slave sleep sleepy sleeve slice slide slight slightly slim
    slip slope slot slow slowly small smart smell smile smoke smooth snack snake snap snow soap soccer social
    society sock soft softly software soil solar soldier solid solution solve somebody somehow someone something
    sometime sometimes somewhat somewhere son song soon sophisticated sore sorry sort soul sound soup sour source
    south southern space spare spark speak speaker special specialist specific specifically specification specimen
    spectacular speech speed spell spend sphere spice spider spill spin spirit spiritual spit spite splendid split
    spoil sponsor spoon sport spot spotless spray spread spring sprint spy square squeeze stability stable stack
    staff stage stain stair stake stale stamp stand standard star stare start starter state statement static station
    statistics statue status stay steadily steady steak steal steam steel steep steer stem step stick sticker sticky
    stiff still stimulate sting stir stock stomach stone stop storage store storm story stove straight
    straightforward strain strange stranger strategic strategy straw strawberry stream street strength stress
    stretch strict strictly strike string strip stroke strong strongly structure struggle student studio study stuff
    stupid style subject submission submit subscribe subscription subsequent substance substantial substitute
    substitution subtle suburb subway succeed success successful successfully sudden suddenly suffer sufficient
    sugar suggest suggestion suit suitable suitcase sum summarize summary summer sun sunday sunglasses sunny sunrise
    sunset sunshine super superb superior supermarket supper supplier supply support supporter suppose supreme sure
    surely surface surgeon surgery surprise surprising surprisingly surround survey survival survive survivor
    suspect suspend suspicion swallow swap swear sweat sweater sweep sweet swift swim swimming swing switch symbol
    sympathy symptom sync syntax system table tablet tackle tag tail talent talk tall tank tap tape target task
    taste tasty tax taxi tea teach teacher teaching team tear technical technique technology teenage teenager
    telephone television tell temperature template temple temporarily temporary tempt ten tenant tend tendency
    tender tennis tension tent term terminal terrible terrific terrify territory terror test testing text textbook
    thank thanks theater theatre theft theirs theme theory therapist therapy therefore thick thief thin thing think
    third thirst thirsty thirteen thirty thorough thoroughly though thought thousand thread threat threaten three
    threshold throat throne throughout throw thumb thunder thursday thus ticket tide tidy tie tiger tight timber
    time timeline timeout timer timestamp timing tin tiny tip tire tired tissue title toast tobacco today toe
    together toilet token tolerate tomato tomorrow tone tongue tonight too tool tooth top topic toss total totally
    touch tough tour tourism tourist tournament toward towards towel tower town toy trace track tractor trade
    tradition traditional traffic tragedy trail train trainer training trait transaction transfer transform
    transformation transit translate translation transmit transparent transport transportation trap trash travel
    traveler traveller tray treasure treat treatment tree tremendous trend trial triangle tribe trick trigger trip
    triumph tropical trouble trousers truck true truly trust truth try tube tuesday tune tunnel turkey turn turtle
    tutorial twelve twenty twice twin twist two type typical typically ugly ultimate ultimately umbrella unable
    unavailable uncle uncomfortable undergo underground underlying underneath understand understanding underwear
    undo unfair unfortunate unfortunately unhappy uniform union unique unit unite universal universe university
    unknown unless unlike unlikely unlock unnecessary unpleasant unusual unwilling upcoming update upgrade upload
    upon upper upset upstairs urban urge urgent usage use used useful useless user usual usually utility vacation
    vacuum vague valid validate valley valuable value van vanish variable variation variety various vary vast vector
    vegetable vehicle vendor venture venue verb verify version versus vertical vessel veteran victim victory video
    view viewer village violence violent violin virtual virtue virus visible vision visit visitor visual vital
    vitamin vocal voice volleyball volume voluntary volunteer vote vulnerable wage wait waiter waitress wake walk
    wall wallet wander want war ward wardrobe warehouse warm warmth warn warning warrant warranty wash waste watch
    water wave wax way weak weakness wealth weapon wear weather web website wedding wednesday weed week weekday
    weekend weekly weigh weight weird welcome welfare well west western wet whatever wheat wheel whenever whereas
    wherever whether whichever whisper whistle white whoever whole wicked wide widely widespread widow width wife
    wild wilderness will willing win wind window wine wing winner winter wipe wire wireless wisdom wise wish within
    without witness wizard wolf wonder wonderful wood wooden wool word work worker workflow workout workplace
    workshop workspace world worldwide worm worry worse worst worth worthwhile worthy would wound wrap wrist write
    writer writing written wrong yard yeah year yearly yell yellow yes yesterday yet yield yoga young youth zero
    zone zoo

    ain aren couldn didn doesn don hadn hasn haven isn mustn needn shouldn wasn weren won wouldn

    adam alan albert alex alexander alice amanda amy andrea andrew angela ann anna anne anthony antonio arthur
    barbara ben benjamin bernard betty bob brandon brenda brian bruce carl carla carlos carol caroline catherine
    charles charlie chloe chris christian christina christine christopher claire clara claudia clemens connor
    cynthia dan daniel david deborah debra dennis diana diane dick dominic donald donna doris dorothy douglas dylan
    edward eleanor elena elizabeth ella ellen emily emma eric erik ethan eva evan evelyn felix fiona florian frances
    francis franz fred frederick gabriel gary george gerald gina gloria greg gregory hannah hans harold harry
    heather heidi helen helena henry hugo ian ingrid irene isaac isabel isabella ivan jack jackson jacob jacqueline
    james jamie jan jane janet janice jason jay jean jeff jeffrey jenna jennifer jenny jeremy jerry jesse jessica
    jim jimmy joan joe joel john jonas jonathan jordan jorge jose joseph joshua joyce juan judith judy julia julian
    julie justin karen karin karl kate katherine kathleen katie keith kelly kenneth kevin kim kyle larry laura
    lauren lea lena leo leon leonard leonie lily linda lisa logan louis louise lucas lucia lucy luis lukas luke
    lydia madison marco marcus margaret maria marie marina mario marta martha martin mary matt matthew maurice max
    maya megan melissa mia michael michelle miguel mike mila miriam mohamed mohammed monica nancy naomi natalie
    nathan nicholas nick nicole nina noah nora oliver olivia oscar otto pamela patricia patrick paul paula pedro
    peter philip philipp phillip rachel ralph ray raymond rebecca richard rita robert roberta robin roger roland
    ronald rosa ruth ryan sabine sabrina sally sam samantha samuel sandra sara sarah scott sean sebastian sharon
    shirley simon simone sofia sophia sophie stefan stella stephanie stephen steve steven sue susan susanne sylvia
    tanya teresa theo theresa thomas tim timothy tina tobias todd tom tommy tony tyler ursula valerie vanessa vera
    veronica victor victoria vincent virginia walter wayne wendy william yvonne zoe

    africa america american asia australia austria belgium berlin boston brazil britain british california canada
    chicago china chinese dallas denmark dublin dutch england europe european finland florida france french germany
    greece greek hamburg india indian ireland irish israel italian italy japan japanese kenya korea london madrid
    mexico moscow munich netherlands norway paris poland portugal portuguese prague rome russia russian scotland
    spain spanish sweden swedish swiss switzerland texas tokyo turkish vienna washington zurich
    """.split()
)
_ENDINGS = ("s", "ed", "ing", "er", "est", "ly", "ness", "less", "ful", "ment", "able")
_HISSING = ("s", "x", "z", "ch", "sh", "o")
_DOUBLED = re.compile(r"[aeiou]([bdgklmnprtv])\1$")
"""What stands before an ending of stopped, planning, bigger."""


def is_everyday(word: str) -> bool:
    """For a word in lower case: whether it is a form of a frequent English word or a frequent name."""
    return word in STOP_WORDS or is_irregular(word) or any(one in _WORDS for one in _plain(word))


def _plain(word: str) -> Iterator[str]:
    """What the word may be a form of."""
    yield word
    for ending in _ENDINGS:
        if not word.endswith(ending):
            continue
        rest = word.removesuffix(ending)
        yield rest
        if ending != "s":
            yield rest + "e"
        if rest.endswith("i"):
            yield rest[:-1] + "y"
        if ending in ("ed", "ing", "er", "est") and _DOUBLED.search(rest):
            yield rest[:-1]
    if word.endswith("ies"):
        yield word[:-3] + "y"
    elif word.endswith("es") and word[:-2].endswith(_HISSING):
        yield word[:-2]
